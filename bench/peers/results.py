"""The JSON file of the results: a row for each job with the figures of each round, and the systems that are left out.

It is written after every turn, so that a stopped run resumes from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.peers.session import Job, Measured
from bench.report import median

QUIET = 0.9
"""The share of the machine that no other process used. A round with less is busy."""
DOCUMENTS = "documents/s"


@dataclass(slots=True)
class Row:
    """The rounds of one job. Lists have one item per round."""

    job: Job
    docs: int
    version: str = ""
    unit: str = DOCUMENTS
    rates: list[float] = field(default_factory=list)
    cpu_rates: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.rates)

    @property
    def cpu_median(self) -> float:
        return median(self.cpu_rates or self.rates)

    @property
    def busy(self) -> list[bool]:
        return [share < QUIET for share in self.idle]

    @property
    def spread(self) -> float:
        """Return the distance between the extreme rounds, as a share of the median."""
        return (max(self.rates) - min(self.rates)) / self.median if self.median else 0.0

    def json(self) -> dict[str, Any]:
        job = self.job
        out: dict[str, Any] = {"workload": job.workload, "case": job.case, "system": job.system}
        out |= {"setting": job.setting, "batch": job.batch, "version": self.version, "documents": self.docs}
        out |= {"rates": _short(self.rates), "median": _short([self.median])[0]}
        out |= {"cpu_rates": _short(self.cpu_rates), "spread": round(self.spread, 3), "verified": True}
        out |= {"idle": self.idle, "load": self.load, "busy": self.busy}
        return out if self.unit == DOCUMENTS else out | {"unit": self.unit}

    @classmethod
    def of(cls, found: dict[str, Any]) -> Row:
        job = Job(*(found[name] for name in ("workload", "case", "system", "setting", "batch")))
        lists = {name: found[name] for name in ("rates", "cpu_rates", "idle", "load")}
        return cls(job, found["documents"], found["version"], found.get("unit", DOCUMENTS), **lists)


class Results:
    """The rows of a file, and the systems that are left out with the reason."""

    def __init__(self, path: Path, command: str | None, machine: str) -> None:
        self.path, self.command, self.machine = path, command or "", machine
        self.rows: list[Row] = []
        self.left_out: dict[str, str] = {}
        self.note = ""  # a remark about these rounds, for the page
        if path.exists():
            found = json.loads(path.read_text("utf-8"))
            if command is None:
                self.command, self.machine = found["command"], found["machine"]
            if found["machine"] == self.machine:
                self.note = found.get("note", "")
                self.rows = [Row.of(row) for row in found["rows"]]
                self.left_out = {one["system"]: one["reason"] for one in found["left_out"]}

    def find(self, job: Job, docs: int, version: str | None = None) -> Row | None:
        """Return the row of a job with this number of documents."""
        for row in self.rows:
            if row.job == job and row.docs == docs and version in (None, row.version):
                return row
        return None

    def rounds(self, job: Job, docs: int) -> int:
        """Return the number of rounds that a job has."""
        return max((len(row.rates) for row in self._of(job, docs)), default=0)

    def is_busy(self, job: Job, docs: int) -> bool:
        """Test whether a job has a round on a busy machine."""
        return any(any(row.busy) for row in self._of(job, docs))

    def drop(self, job: Job) -> None:
        """Drop the rows of a job."""
        self.rows = [row for row in self.rows if _plain(row.job) != job]

    def add(self, job: Job, docs: int, found: Measured, replace: bool = False) -> None:
        """Add a round to the rows of a job. With `replace` it takes the place of the busiest one, if it is quieter."""
        measured = found.documents or docs
        figures = found.measures or {"": measured / found.seconds}
        for name, value in figures.items():
            measure, _, unit = name.rpartition(", ")
            own = Job(job.workload, f"{job.case}: {measure}" if measure else job.case, *_rest(job))
            row = next((one for one in self.rows if one.job == own and one.docs == docs), None)
            if row is None or row.version != found.version:
                self.rows = [one for one in self.rows if one.job != own]
                row = Row(own, docs, found.version, unit or DOCUMENTS)
                self.rows.append(row)
            if replace:
                worst = row.idle.index(min(row.idle))
                if found.quiet <= row.idle[worst]:
                    continue
                for values in (row.rates, row.cpu_rates, row.idle, row.load):
                    if values:
                        del values[worst]
            row.rates.append(value)
            if not name:
                row.cpu_rates.append(measured / max(found.cpu, 0.001))
            row.idle.append(found.quiet)
            row.load.append(round(found.load, 2))
        self.save()

    def leave_out(self, system: str, reason: str) -> None:
        """List a system that could not be measured."""
        self.left_out[system] = reason
        self.save()

    def save(self) -> None:
        self.rows.sort(key=lambda row: (row.job.workload, row.job.case, -row.job.batch))
        out = {
            "command": self.command,
            "machine": self.machine,
            **({"note": self.note} if self.note else {}),
            "rows": [row.json() for row in self.rows],
            "left_out": [{"system": system, "reason": reason} for system, reason in sorted(self.left_out.items())],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(_text(out), "utf-8")
        part.replace(self.path)

    def _of(self, job: Job, docs: int) -> Iterator[Row]:
        return (row for row in self.rows if _plain(row.job) == job and row.docs == docs)


def _plain(job: Job) -> Job:
    """Return the job without the name of a measure."""
    return Job(job.workload, job.case.partition(": ")[0], *_rest(job))


def _rest(job: Job) -> tuple[str, str, int]:
    return job.system, job.setting, job.batch


def _short(values: list[float]) -> list[float]:
    """Round to four digits: more is noise."""
    return [float(f"{value:.4g}") if value < 1000 else round(value) for value in values]


def _text(out: dict[str, Any]) -> str:
    """Return the file as text, with one line per row, so that a diff shows the rows that changed."""
    lines = []
    for name, value in out.items():
        if isinstance(value, list):
            items = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value)
            lines.append(f' "{name}": [\n  {items}\n ]' if value else f' "{name}": []')
        else:
            lines.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
