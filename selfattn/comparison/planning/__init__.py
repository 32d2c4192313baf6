"""What a comparison is going to do, fixed before training: options, models and their size, tuning, the sealed plan."""
