"""The engine of comparisons and claims: plan and tuning, the queue of trials, progress."""
