"""Pictures and numbers as text."""
