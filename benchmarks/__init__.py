"""What takes how long, beside others: `python -m benchmarks`."""
