"""The screen of the demo: headings, rows in columns, and a progress bar on a terminal."""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

_WIDTH = 32


def heading(text: str) -> None:
    """Print the title of an act."""
    print(f"\n== {text}", flush=True)


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"   {text}", flush=True)


def table(rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in columns: numbers to the right, everything else to the left."""
    shown = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text, _ in column) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [f"{text:>{w}}" if number else f"{text:<{w}}" for (text, number), w in zip(row, widths, strict=True)]
        say("   " + "  ".join(cells).rstrip())


def _cell(value: Any) -> tuple[str, bool]:
    if isinstance(value, int):
        return f"{value:,}", True
    return (f"{value:,.2f}", True) if isinstance(value, float) else (str(value), False)


class Bar:
    """A progress bar on a terminal. If stderr is no terminal, it shows nothing."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self._label = label
        self._total = max(total, 1)
        self._stream = stream if stream is not None else sys.stderr
        self._shown = self._stream.isatty()
        self._first: tuple[int, float] | None = None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def at(self, done: int) -> None:
        """Show that this number is done."""
        if not self._shown:
            return
        now = time.monotonic()
        if self._first is None:
            self._first = done, now
        share = min(done / self._total, 1.0)
        filled = int(share * _WIDTH)
        rate = (done - self._first[0]) / max(now - self._first[1], 1e-3)
        bar = "█" * filled + "·" * (_WIDTH - filled)
        self._stream.write(f"\r   {self._label} {bar} {share:4.0%}  {done:,} ({rate:,.0f}/s)\x1b[K")
        self._stream.flush()
