"""The models: one protocol, families behind it, presets and sizes."""
