"""Attention against gold."""
