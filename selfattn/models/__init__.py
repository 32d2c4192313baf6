"""The models: one protocol, three families behind it. Import what you need from its own module."""
