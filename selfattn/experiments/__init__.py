"""The engine of comparisons and claims: plan, trials, queue, tuning, progress."""
