"""Claims on attention itself: what it aligns, compares, sums, and what it costs."""
