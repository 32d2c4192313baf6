"""The words of a report."""
