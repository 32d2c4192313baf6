"""Many trainings side by side: what one is, who does it, and how far all of them are."""
