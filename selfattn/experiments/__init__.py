"""The engine of comparisons and claims: plan, trials, queue and search, progress."""
