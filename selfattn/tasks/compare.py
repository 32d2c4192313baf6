"""`python -m tasks.compare` takes what `selfattn compare` takes, and without a task compares on dates."""

from __future__ import annotations

from selfattn.comparison.engine import main

if __name__ == "__main__":
    main()
