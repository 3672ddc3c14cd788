"""The command line: everything that a person does with a store, as `penstock` and as `python -m penstock`."""

from penstock.cli.program import main

__all__ = ["main"]
