"""A figure, as one JSON line for machines and one row of a table for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

QUIET = 0.9  # a figure with a smaller share of the machine is marked


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, beside its bound and the limits of the machine.

    `ratio` is compared with the bound, `reach` is the bound as text, and `met` tells whether it holds. A figure without
    a bound is for information.
    """

    name: str
    case: str
    value: float
    unit: str
    limits: dict[str, float | None]
    idle: float | None
    reach: str = ""
    ratio: float | None = None
    met: bool | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def disturbed(self) -> bool:
        return self.idle is not None and self.idle < QUIET

    def line(self, machine: str) -> str:
        record = {
            "figure": self.name,
            "case": self.case,
            "value": _short(self.value),
            "unit": self.unit,
            "ratio": _short(self.ratio),
            "reach": self.reach or None,
            "met": self.met,
            "limits": {name: _short(value) for name, value in self.limits.items()},
            "idle": self.idle,
            "disturbed": self.disturbed,
            "detail": _short(self.detail),
            "machine": machine,
        }
        return json.dumps(record, ensure_ascii=False)


def _short(value: Any) -> Any:
    """Round floats to four digits: more is noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < 1000 else round(value)
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    return [_short(inner) for inner in value] if isinstance(value, list) else value


class Report:
    """The output of figures: a JSON line on stdout and in a file per group, and a row on stderr."""

    def __init__(self, machine: str, results: Path | None, people: TextIO = sys.stderr) -> None:
        self._machine = machine
        self._results = results
        self._people = people
        self.missed = 0
        self._say(f"{machine}\n{_row('figure', 'case', 'value', 'ratio', 'reach', '', 'idle')}\n{'-' * 118}")

    def add(self, group: str, figures: Iterable[Figure]) -> None:
        """Print the figures of a group, each when it is available. The group's file has those of the last run."""
        lines = []
        for figure in figures:
            lines.append(figure.line(self._machine))
            print(lines[-1], flush=True)
            self._say(self._people_row(figure))
            self.missed += figure.met is False
        if self._results:
            self._results.mkdir(parents=True, exist_ok=True)
            (self._results / f"{group}.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")

    def _people_row(self, figure: Figure) -> str:
        met = {True: "ok", False: "MISSED", None: ""}[figure.met]
        idle = "?" if figure.idle is None else f"{figure.idle:.0%}" + (" disturbed" if figure.disturbed else "")
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        value = f"{_short(figure.value):,} {figure.unit}"
        row = _row(figure.name, figure.case, value, ratio, figure.reach, met, idle)
        limits = ", ".join(f"{name} {_short(value):,}" for name, value in figure.limits.items() if value is not None)
        return f"{row}\n{'':10}beside: {limits}" if limits else row

    def _say(self, text: str) -> None:
        print(text, file=self._people, flush=True)


def cpu_rate(name: str, case: str, rounds: Sequence[Mapping[str, Any]], beside: str, others: Iterable[float]) -> Figure:
    """Return the figure of documents per CPU second. Each round has `docs`, the seconds `cpu`, and `idle`.

    `others` has the CPU seconds of the work beside them for the same documents, by round, and `beside` its name.
    """
    pairs = list(zip(rounds, others, strict=True))
    return Figure(
        name,
        case,
        median(r["docs"] / r["cpu"] for r in rounds),
        "documents/CPU s",
        {f"{beside}, documents/CPU s": median(r["docs"] / other for r, other in pairs)},
        min((r["idle"] for r in rounds if r["idle"] is not None), default=None),
        ratio=median(r["cpu"] / other for r, other in pairs),
    )


def _row(name: str, case: str, value: str, ratio: str, reach: str, met: str, idle: str) -> str:
    return f"{name:<12}{case:<24}{value:>24}{ratio:>9}  {reach:<34}{met:<8}{idle}"


def median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    assert ordered
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
