"""Blocks as HTML, Markdown and terminal text."""
