"""The progress of long work: a bar on a terminal, lines with -v elsewhere, else nothing.

It is printed on standard error, because standard output belongs to the command. `clock` supplies the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from penstock.cli.context import Context

if TYPE_CHECKING:
    from penstock.cache import Tell

_EVERY = 2.0  # seconds between two lines


class Bar(Protocol):
    """The progress that a piece of work reports."""

    def advance(self, amount: int, records: int = 0) -> None:
        """Report that `amount` more of the total is done, with so many records."""
        ...

    def total(self, total: int | None) -> None:
        """Set the total, None if it is unknown."""
        ...


@contextmanager
def progress(ctx: Context, what: str, total: int | None, clock: Callable[[], float] = time.monotonic) -> Iterator[Bar]:
    """Yield the bar of a piece of work. `total` has the unit of `advance`; None means unknown."""
    if ctx.quiet:
        yield _Nothing()
    elif sys.stderr.isatty():
        from penstock.cli.progress_bar import drawn

        with drawn(what, total, ctx.color) as bar:
            yield bar
    elif ctx.verbose:
        yield _Lines(what, total, clock)
    else:
        yield _Nothing()


@contextmanager
def parts(ctx: Context) -> Iterator[Tell]:
    """Yield a function that shows one bar after the other, for work that reports its current part and progress."""
    with ExitStack() as stack:
        part, before = "", 0
        bar: Bar | None = None

        def tell(what: str, done: int, total: int) -> None:
            nonlocal part, before, bar
            if bar is None or what != part or done < before:
                stack.close()
                part, before = what, 0
                bar = stack.enter_context(progress(ctx, what, total))
            bar.total(total or None)
            bar.advance(done - before)
            before = done

        yield tell


class _Nothing:
    """A bar that shows nothing."""

    def advance(self, amount: int, records: int = 0) -> None:
        """Do nothing."""

    def total(self, total: int | None) -> None:
        """Do nothing."""


class _Lines:
    """A bar that prints a line every two seconds."""

    def __init__(self, what: str, total: int | None, clock: Callable[[], float]) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._start = self._reported = clock()
        self._done = self._records = 0

    def advance(self, amount: int, records: int = 0) -> None:
        self._done += amount
        self._records += records
        now = self._clock()
        if now - self._reported >= _EVERY:
            self._reported = now
            click.echo(progress_line(self._what, self._done, self._total, self._records, now - self._start), err=True)

    def total(self, total: int | None) -> None:
        self._total = total


def progress_line(what: str, done: int, total: int | None, records: int, seconds: float) -> str:
    """Return the progress in one line.

    >>> progress_line("users.jsonl", 50, 200, 1_000, 2.0)
    'users.jsonl: 25 %, 1,000 records, 500/s, 6 s left'
    """
    parts: list[str] = []
    if total:
        parts.append(f"{min(100, 100 * done // total)} %")
    if records:
        parts.append(f"{records:,} records")
        if seconds > 0:
            parts.append(f"{records / seconds:,.0f}/s")
    elif not total:
        parts.append(f"{seconds:,.0f} s")
    if seconds > 0 and total and done:
        parts.append(f"{max(0, total - done) * seconds / done:,.0f} s left")
    return f"{what}: {', '.join(parts)}"
