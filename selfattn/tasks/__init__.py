"""What is done with models: dates, comparisons, and trained runs as a user meets them."""
