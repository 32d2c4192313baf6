"""Models side by side: the engine, which knows no task by name."""
