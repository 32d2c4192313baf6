"""A trained model as a user meets it: made, resumed, tested, loaded."""
