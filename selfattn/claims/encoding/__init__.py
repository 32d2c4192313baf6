"""Claims on how a source is encoded, and on how a decoder gets at what was encoded."""
