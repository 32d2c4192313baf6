"""How right outputs are."""
