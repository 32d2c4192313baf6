"""Models side by side: planned, trained, tested and judged; knows no task by name."""
