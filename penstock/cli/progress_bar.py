"""The bar of `progress` on a terminal, and lines that are printed there meanwhile.

Invariant: everything that this process prints to the terminal while a bar is shown appears above it, on lines of its
own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text


class _RateColumn(ProgressColumn):
    """The number of records and their rate. It is empty if there are no records."""

    def render(self, task: Task) -> Text:
        records = int(task.fields["records"])
        seconds = task.elapsed or 0.0
        if not records:
            return Text("")
        rate = f", {records / seconds:,.0f}/s" if seconds else ""
        return Text(f"{records:,} records{rate}")


class _Drawn:
    def __init__(self, bars: Progress, what: str, total: int | None) -> None:
        self._bars = bars
        self._records = 0
        self._task = bars.add_task(what, total=total, records=0)

    def advance(self, amount: int, records: int = 0) -> None:
        """Report that `amount` more of the total is done."""
        self._records += records
        self._bars.update(self._task, advance=amount, records=self._records)

    def total(self, total: int | None) -> None:
        """Set the total."""
        self._bars.update(self._task, total=total)


class _Above:
    """A stream to the terminal. It hides the bar while a line is written."""

    def __init__(self, stream: TextIO, bars: Progress) -> None:
        self._stream = stream
        self._bars = bars

    def write(self, text: str) -> int:
        """Write above the bar."""
        self._bars.stop()
        written = self._stream.write(text)
        self._stream.flush()
        if text.endswith("\n"):
            self._bars.start()
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def drawn(what: str, total: int | None, color: bool) -> Iterator[_Drawn]:
    """Show a bar while the block runs."""
    console = Console(file=sys.stderr, no_color=not color)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), _RateColumn())
    bars = Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    with bars, ExitStack() as streams:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream.isatty():
                streams.enter_context(redirect(cast(TextIO, _Above(stream, bars))))
        yield _Drawn(bars, what, total)
