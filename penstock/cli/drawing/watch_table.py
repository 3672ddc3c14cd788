"""The table of `watch` on a terminal: a line per group, which stays in its place while its values change.

Invariant: there are no more lines than fit on the terminal. A new line replaces the least recently changed one. `clock`
supplies the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from penstock.cli.json_values import dumps, spelt
from penstock.cli.rows_output import cell_text
from penstock.views import ABSENT, Change, Position, Row

_HALF = 2.0  # seconds after which a change counts half in a rate
_FRESH = 1.0  # seconds for which a change is bold
_AROUND = 6  # lines that aren't groups
_CUT = 8  # a column of values is not made narrower while others have room
_COUNTS = 2  # columns
_LEAST = 0.05  # a rate below this is none


@dataclass(slots=True)
class Rate:
    """The recent number of changes per second.

    >>> rate = Rate()
    >>> for second in range(100):
    ...     rate.add(5, float(second))
    >>> 4 < rate.at(99.5) < 6, rate.at(200.0) < 0.01
    (True, True)
    """

    level: float = 0.0
    since: float = 0.0

    def add(self, n: int, now: float) -> None:
        """Add `n` changes at this time."""
        self.level = self.level * 0.5 ** ((now - self.since) / _HALF) + n
        self.since = now

    def at(self, now: float) -> float:
        """Return the rate at this time."""
        return float(self.level * 0.5 ** ((now - self.since) / _HALF) * math.log(2) / _HALF)


@dataclass(slots=True)
class _Line:
    view: str
    group: Any
    new: Any
    old: Any
    changes: int
    rate: Rate
    at: float  # time of the last change


class WatchTable:
    """The lines of the table, and their drawing."""

    def __init__(self, views: Sequence[str], room: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._several = len(views) > 1
        self._room = max(1, room)
        self._clock = clock
        self._lines: dict[tuple[str, str], _Line] = {}
        self._changes = 0
        self._rate = Rate()

    @property
    def room(self) -> int:
        """The largest number of lines."""
        return self._room

    def show(self, view: str, rows: Iterable[Row]) -> None:
        """Add lines for these rows."""
        for row in rows:
            self._lines[view, dumps(row.key)] = _Line(view, row.key, row.value, ABSENT, 0, Rate(), -math.inf)

    def take(self, changes: Sequence[Change]) -> None:
        """Apply these changes."""
        if not changes:
            return
        now = self._clock()
        self._changes += len(changes)
        self._rate.add(len(changes), now)
        further: dict[tuple[str, str], _Line] = {}
        for change in changes:
            key = change.view, dumps(change.group)
            line = self._lines.get(key) or further.get(key)
            if line is None:
                line = further[key] = _Line(change.view, change.group, ABSENT, ABSENT, 0, Rate(), now)
            line.new, line.old, line.at = change.new, change.old, now
            line.changes += 1
            line.rate.add(1, now)
        for key in list(further)[-self._room :]:
            self._place(key, further[key])

    def page(self, position: Position | None, width: int) -> RenderableType:
        """Return the table and its status line, for a terminal of this width."""
        now = self._clock()
        rows = [self._cells(line, now) for line in self._lines.values()]
        names = ["view", "group", "value", "before", "changes", "/s"][not self._several :]
        widths = _widths(names, rows, width)
        lines = [Text(_line(names, widths), style="bold"), Text("  ".join("─" * n for n in widths))]
        for cells, line in zip(rows, self._lines.values(), strict=True):
            lines.append(Text(_line(cells, widths), style="bold" if now - line.at < _FRESH else ""))
        total = self._rate.at(now)
        footer = f"position {spelt(position or 0)}, {self._changes:,} changes, {total:,.1f}/s; Ctrl-C ends it"
        return Group(*lines, Text(), Text(footer, style="dim", no_wrap=True, overflow="ellipsis"))

    def _cells(self, line: _Line, now: float) -> list[str]:
        rate = line.rate.at(now)
        counts = [f"{line.changes:,}" if line.changes else "", f"{rate:,.1f}" if rate >= _LEAST else ""]
        return [line.view] * self._several + [
            cell_text(line.group),
            _cell_text(line.new),
            _cell_text(line.old),
            *counts,
        ]

    def _place(self, key: tuple[str, str], line: _Line) -> None:
        """Add a line, in place of the least recently changed one if there is no room."""
        if len(self._lines) < self._room:
            self._lines[key] = line
            return
        goes = min(self._lines, key=lambda known: self._lines[known].at)
        self._lines = {
            key if known == goes else known: line if known == goes else it for known, it in self._lines.items()
        }


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return widths of the columns that fit the terminal. Values are cut first, counts and names of columns never."""
    out = [min(width, max(map(cell_len, (name, *(row[i] for row in rows))))) for i, name in enumerate(names)]
    left = width - 2 * (len(names) - 1)
    values = [i for i, name in enumerate(names) if name in ("value", "before")]
    others = [i for i in range(len(names) - _COUNTS) if i not in values]
    for part, least in ((values, _CUT), (others, 0), (values, 0)):
        while sum(out) > left and (wide := [i for i in part if out[i] > max(least, len(names[i]))]):
            out[max(wide, key=out.__getitem__)] -= 1
    return out


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return the cells in their columns. The counts, in the last columns, are aligned to the right."""
    out: list[str] = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        room = width - cell_len(cell)
        if room < 0:
            out.append(set_cell_size(cell, width - 1) + "…")
        else:
            out.append(" " * room + cell if i >= len(cells) - _COUNTS else cell + " " * room)
    return "  ".join(out)


def drawing(color: bool) -> tuple[Live, int]:
    """Return the live display, and the number of lines that fit."""
    console = Console(no_color=not color)
    return Live(console=console, auto_refresh=False, vertical_overflow="crop"), console.height - _AROUND


def _cell_text(value: Any) -> str:
    return "" if value is ABSENT else cell_text(value)
