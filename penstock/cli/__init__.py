"""The command line: everything that a person does with a store, as `penstock` and as `python -m penstock`."""

from penstock.cli.main import main

__all__ = ["main"]
