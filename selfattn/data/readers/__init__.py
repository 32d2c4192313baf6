"""Files as they come: unpacked, decoded, understood as texts or pairs, or refused in one line."""
