"""A training put down on disk, to go on from."""
