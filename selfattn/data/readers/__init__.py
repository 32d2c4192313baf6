"""Files of pairs and of texts, read line by line."""
