"""Something that functions of views ask and that may fail, as whatever lies outside a store.

A function that asks it takes a document now and not then, and yields the same whenever it does: what a view could not
take is held until it is retried.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class Failing(Exception):
    """It did not answer."""


@dataclass(slots=True)
class Switch:
    """Whether it fails.

    >>> switch = Switch()
    >>> switch.ask("red")
    'red'
    """

    on: bool = False

    def ask(self, value: str) -> str:
        """The same value; `Failing` while it fails."""
        if self.on:
            raise Failing("no answer")
        return value

    @contextmanager
    def mended(self) -> Iterator[None]:
        """While it does not fail."""
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before
