"""Small trained runs, the command line called from inside, and a Hub on this machine."""

from hub_server import hub
from small_runs import cli, runs, small, tiny, train

__all__ = ["cli", "hub", "runs", "small", "tiny", "train"]
