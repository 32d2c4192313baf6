"""What may be concluded from figures."""
