"""Weights from and to other libraries: PyTorch's attention and Transformer modules, ``transformers``' Marian.

Whatever has no counterpart on the other side is an error that says what it is. ``transformers`` is never imported.
"""
