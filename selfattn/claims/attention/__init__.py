"""Claims on attention itself: scores, the weighted sum, alignment, parallelism, order, key-value heads."""
