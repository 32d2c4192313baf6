"""How good a model is and what it costs: metrics, statistics, gates, alignment, operations and memory."""
