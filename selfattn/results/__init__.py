"""What is measured, as types."""
