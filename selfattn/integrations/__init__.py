"""`attend` inside other people's models. Needs the libraries it serves only when it is asked for."""
