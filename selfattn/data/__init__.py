"""Where pairs of texts come from, and how they become batches."""
