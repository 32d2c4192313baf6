"""A page that answers: trained models that run in the reader's browser, from their weights."""
