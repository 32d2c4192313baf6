"""The decoder-only family: one stack reads source and target as one sequence, and continues texts."""
