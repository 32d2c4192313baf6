"""Small trained runs, and the command line called from inside."""

from small_runs import cli, runs, small, tiny, train

__all__ = ["cli", "runs", "small", "tiny", "train"]
