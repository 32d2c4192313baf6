"""What a training step makes smaller."""
