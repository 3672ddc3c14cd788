"""`python -m penstock` is the command line."""

from penstock.cli import main

main()
