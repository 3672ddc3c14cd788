"""A service outside the store that map functions ask, and that may fail.

A function that asks it may fail on a document and succeed later. Whenever it succeeds, it yields the same emission. The
view holds the document until a retry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class Failing(Exception):
    """The service did not answer."""


@dataclass(slots=True)
class Switch:
    """The service. It fails while `on` is true.

    >>> switch = Switch()
    >>> switch.ask("red")
    'red'
    """

    on: bool = False

    def ask(self, value: str) -> str:
        """Return the same value. Raise `Failing` while the service fails."""
        if self.on:
            raise Failing("no answer")
        return value

    @contextmanager
    def repaired(self) -> Iterator[None]:
        """Make the service work within this context."""
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before
