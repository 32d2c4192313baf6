"""What must be true before a verdict means anything."""
