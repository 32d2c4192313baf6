"""`python -m selfattn.cli` is `selfattn`."""

from selfattn.cli.main import main

main()
