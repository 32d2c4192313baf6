"""The claims suite: what the textbook says of attention, each sentence a small controlled experiment with a verdict."""
