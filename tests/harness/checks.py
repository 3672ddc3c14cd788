"""Compare an engine with the oracle, and describe the differences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.oracle.model import Counts, Model
from tests.oracle.values import identity, rank
from tests.oracle.views import Docs, Stamps, recompute
from tests.waiting import PATIENCE

COUNTED = ("applied", "equal", "late", "held", "rejected")
ABSENT = "no such row"


def counts_of(answer: Any) -> Counts:
    """Return the counts of a call, which either waited or returned a ticket."""
    counts = answer.result(timeout=PATIENCE) if hasattr(answer, "result") else answer
    return Counts(**{name: getattr(counts, name) for name in COUNTED})


def identities(rows: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return rows in a form to compare: 1, 1.0 and True differ, and NaN equals itself."""
    return [(identity(key), identity(value)) for key, value in rows]


def differences(name: str, got: Iterable[tuple[Any, Any]], wanted: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return the differences of a view's rows from the expected ones, by key. If there are none, compare the order."""
    got, wanted = [(key, value) for key, value in got], list(wanted)
    if identities(got) == identities(wanted):
        return []
    mine, yours = {rank(k): (k, v) for k, v in wanted}, {rank(k): (k, v) for k, v in got}
    found = []
    for where in sorted(mine.keys() | yours.keys()):
        should, does = mine.get(where, ABSENT), yours.get(where, ABSENT)
        if should == ABSENT or does == ABSENT or identities([should]) != identities([does]):
            found.append(f"{name}: shows {does!r}, should show {should!r}")
    if not found:
        found.append(f"{name}: rows are out of order: {[k for k, _ in got]!r}")
    return found


def rows_of(model: Model, view: str) -> list[tuple[Any, Any]]:
    """Return the rows of a view in group order."""
    return [(shown.group, shown.result) for shown in model.rows[view].values()]


def documents_of(model: Model, table: str) -> list[tuple[Any, Any]]:
    """Return the documents of a table in the order of their keys."""
    living = model.living(table)
    return [living[where] for where in sorted(living)]


class Picture:
    """The content of the oracle at one moment, to be compared with a snapshot at any time."""

    def __init__(self, model: Model) -> None:
        self.tables = {name: documents_of(model, name) for name in model.tables}
        self.views = {name: rows_of(model, name) for name in model.views}
        self.held = {name: [shown.held for shown in rows.values()] for name, rows in model.rows.items()}
        self.sources = dict(model.sources)

    def differences(self, snap: Any) -> list[str]:
        """Return the differences of a snapshot from this content."""
        found = []
        for name, docs in self.tables.items():
            stored = sorted(snap.table(name).items(), key=lambda row: rank(row[0]))
            found += differences(name, stored, docs)
            found += self._points(name, snap.table(name), docs)
        for name, rows in self.views.items():
            found += differences(name, snap.view(name).items(), rows)
            found += self._points(name, snap.view(name), rows)
            held = [bool(row.held) for row in snap.view(name).items()]
            if not found and held != self.held[name]:
                found.append(f"{name}: held groups are {held}, should be {self.held[name]}")
        if {k: v for k, v in dict(snap.sources).items() if v} != {k: v for k, v in self.sources.items() if v}:
            found.append(f"sources: shows {dict(snap.sources)!r}, should show {self.sources!r}")
        return found

    @staticmethod
    def _points(name: str, reader: Any, rows: list[tuple[Any, Any]]) -> list[str]:
        """Return the differences of single reads from the scan."""
        keys = [key for key, _ in rows]
        found = [] if len(reader) == len(rows) else [f"{name}: len is {len(reader)}, should be {len(rows)}"]
        found += differences(f"{name}.get_many", zip(keys, reader.get_many(keys), strict=True), rows)
        for key, value in rows[:2] + rows[-1:]:
            if key not in reader:
                found.append(f"{name}: {key!r} is not `in`")
                continue
            asked = [("get", reader.get(key)), ("[]", reader[key]), ("row", reader.row(key)[1])]
            for how, answer in asked:
                found += differences(f"{name}.{how}", [(key, answer)], [(key, value)])
        return found


def check(engine: Any, model: Model) -> None:
    """Check that the engine shows exactly the content of the oracle now."""
    with engine.snapshot() as snap:
        found = Picture(model).differences(snap)
    assert not found, "\n" + "\n".join(found)


def check_recompute(engine: Any, model: Model) -> None:
    """Check that each view without held documents equals a recomputation from the engine's own stored documents."""
    with engine.snapshot() as snap:
        inputs: dict[str, tuple[Docs, Stamps]] = {}
        for name, view in model.views.items():
            chained = view.source in model.views
            if view.source not in inputs:
                reader = snap.view(view.source) if chained else snap.table(view.source)
                stored = {rank(key): (key, value) for key, value in reader.items()}
                inputs[view.source] = stored, {} if chained else model.tables[view.source].stamps()
            docs, stamps = inputs[view.source]
            rows, held = recompute(view, docs, chained, stamps)
            if held or model.told[name].held:
                continue
            wanted = [(shown.group, shown.result) for shown in rows.values()]
            found = differences(name, snap.view(name).items(), wanted)
            assert not found, "\n" + "\n".join(found)
