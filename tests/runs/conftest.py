"""A Hub on this machine."""

from hub_server import hub

__all__ = ["hub"]
