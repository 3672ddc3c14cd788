"""Count the events of runs: actions, faults, places, kinds of deliveries, and features of apps.

An event that no seed draws is never tested, however many seeds run. So the events that are expected are listed even if
they never occurred. `python -m penstock.testing --coverage --seeds 500` prints the list. It exits with 1 if an expected
event never occurred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from penstock.mapreduce import nodes_db
from penstock.testing.simulator.fault_plan import (
    BuildViews,
    Deliver,
    Operate,
    OperatorAction,
    Outage,
    Poll,
    Redefine,
    Route,
    Step,
    Write,
)
from penstock.testing.simulator.faults import Fault
from penstock.testing.simulator.machine import Machine, RecordsInFlight
from penstock.testing.simulator.publisher import Link
from penstock.testing.simulator.run import StepWitness
from penstock.views import App, FieldMap, Merge, ReduceFunction, Table, View

_ACTIONS = (
    "Deliver",
    "Write",
    "Poll",
    "Route",
    "Look",
    "Forget",
    "Reopen",
    "Redefine",
    "BuildViews",
    "Operate",
    "Outage",
)
_PLACES = ("begin", "put", "delete", "clear", "commit before", "commit after", "send before", "send at", "send after")
_SOURCES = (
    "records delivered again",
    "a record twice in a batch",
    "another partition than before",
    "a batch of 1",
    "a batch of 2 to 9",
    "a batch of 10 or more",
    "an empty batch",
    "a repost on the wire",
    "a deletion",
)
_GENERATIONS = (
    "another app",
    "another app while views were being built",
    "a step of building",
    "a switch",
    "a fault while building",
    "a batch while building",
)
_PARTS = (
    *("count", "sum", "mean", "variance", "min", "max", "top", "bottom", "distinct", "first", "last", "collect"),
    *("histogram", "quantiles", "group", "monoid", "function as CouchDB has them"),
    *("view by fields", "view by a function", "view of a view", "several reducers", "where", "plain index"),
    *("sources kept", "tuple groups", "merge=patch", "ts", "ts of the broker", "no ts"),
)
_SEEN = (
    "trees of several nodes",
    "a document held at the end",
    "a document held on the way",
    "a held document released",
    "a group held",
    "records in quarantine",
    "changes told by the feed",
    "late changes downstream",
)
Line = tuple[str, str, int]


class Coverage(StepWitness):
    """A follower that counts the events of many runs."""

    def __init__(self) -> None:
        self.seeds = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._world: Machine | None = None
        self._places: list[str] = []
        self._source: str | None = None
        self._held: set[str] = set()
        self._building = False
        self._faults = 0

    def begin(self, app: App) -> None:
        """Begin a run of this app."""
        self.seeds += 1
        self._world, self._source, self._building = None, None, False
        self._places, self._held = [], set()
        for part in set(_parts_of(app)):
            self._counts["parts of apps, in seeds", part] += 1

    def end(self) -> None:
        """End the run, and count its events."""
        world = self._world
        if world is None:
            return
        for place in self._places:
            self._counts["places passed", _place(place)] += 1
        for fault, place in world.struck:
            self._counts["faults struck", fault.value] += 1
            self._counts["struck at", _place(place)] += 1
            if place.startswith("opening"):
                self._counts["struck at", "while it was opened"] += 1
        with world.engine.snapshot() as snap:
            now = {name for name in snap.schema.views if snap.holds(name)}
            groups = any(snap.state.held_groups.values())
            numbers = [view.number for view in snap.schema.views.values()]
        with world.core.store.read() as reader:
            deep = any(reader.count(nodes_db(number)) for number in numbers)
        seen = {
            "trees of several nodes": deep,
            "a document held at the end": bool(now),
            "a document held on the way": bool(self._held),
            "a held document released": bool(self._held - now),
            "a group held": groups,
            "records in quarantine": bool(world.oracle.refused),
            "changes told by the feed": bool(world.subscriber.changes),
        }
        self._counts.update(("seen, in seeds", name) for name, present in seen.items() if present)

    def stepping(self, world: Machine, number: int, step: Step | None) -> None:
        self._world = world
        world.points.names = self._places
        if step is None:
            return
        action = step.action
        self._add("actions", type(action).__name__)
        match action:
            case Route(link, _):
                self._add("downstream", link.value)
            case Write(how, _):
                self._add("clients put", how.value)
            case Operate(how):
                self._add("operators", how.value)
            case Poll() if world.downstream.late:
                self._add("seen, in seeds", "late changes downstream")
            case Redefine():
                self._add("definitions", "another app")
                if world.core.build is not None:
                    self._add("definitions", "another app while views were being built")
            case BuildViews() if world.core.build is not None:
                self._add("definitions", "a step of building")
            case Deliver(_, n, _, twice):
                if twice and n:
                    self._add("sources", "a record twice in a batch")
            case Outage() | _:
                pass
        self._building = world.core.build is not None
        self._faults = world.faults

    def stepped(self, world: Machine) -> None:
        building = world.core.build is not None
        if (self._building or building) and world.faults > self._faults:
            self._add("definitions", "a fault while building")
        if self._building and not building and world.core.switched is not None:
            self._add("definitions", "a switch")
        with world.engine.snapshot() as snap:
            self._held.update(name for name in snap.schema.views if snap.holds_any(name))

    def committing(self, world: Machine, flying: RecordsInFlight) -> None:
        if world.core.build is not None:
            self._add("definitions", "a batch while building")
        self._counts["sources", "a deletion"] += sum(r.doc is None for r in flying.records)
        if flying.source is None:
            return
        done, n = world.sources.get(flying.source, 0), len(flying.records)
        self._counts["sources", "records delivered again"] += sum((r.offset or 0) < done for r in flying.records)
        self._counts["sources", "a repost on the wire"] += sum(r.repost for r in flying.records)
        size = "an empty batch" if not n else "a batch of 1" if n == 1 else "a batch of 2 to 9"
        self._add("sources", "a batch of 10 or more" if n > 9 else size)
        if self._source not in (None, flying.source):
            self._add("sources", "another partition than before")
        self._source = flying.source

    def committed(self, world: Machine) -> None:
        pass

    def happened(self, world: Machine, text: str) -> None:
        pass

    def lines(self) -> Iterator[Line]:
        """Yield the expected events and those that occurred, each with its kind and count."""
        expected: dict[str, Iterable[str]] = {
            "actions": _ACTIONS,
            "faults struck": [fault.value for fault in Fault],
            "struck at": [*_PLACES, "while it was opened"],
            "places passed": _PLACES,
            "sources": _SOURCES,
            "clients put": (),
            "downstream": [link.value for link in Link],
            "operators": [how.value for how in OperatorAction],
            "definitions": _GENERATIONS,
            "parts of apps, in seeds": _PARTS,
            "seen, in seeds": _SEEN,
        }
        for kind, names in expected.items():
            came = sorted(name for own, name in self._counts if own == kind)
            for name in dict.fromkeys([*names, *came]):
                yield kind, name, self._counts[kind, name]

    @property
    def missing(self) -> list[str]:
        """The expected events that never occurred."""
        return [f"{kind}: {name}" for kind, name, n in self.lines() if not n]

    def __str__(self) -> str:
        out, last = [f"{self.seeds:,} seeds"], ""
        for kind, name, n in self.lines():
            if kind != last:
                out.append(kind)
            out.append(f"{n:>12,}  {name}")
            last = kind
        return "\n".join(out)

    def _add(self, kind: str, name: str) -> None:
        self._counts[kind, name] += 1


def _place(place: str) -> str:
    """Return the kind of a place. The database of a call does not matter."""
    name = place.removeprefix("opening: ")
    own = name.removeprefix("pub ")
    return next((kind for kind in _PLACES if own.startswith(kind)), own)


def _parts_of(app: App) -> Iterator[str]:
    for table in app.tables():
        yield from ["merge=patch"] if table.merge is Merge.PATCH else []
        yield "ts of the broker" if table.broker_ts else "ts" if table.has_ts else "no ts"
    for view in app.views():
        yield from _parts_of_view(view)


def _parts_of_view(view: View) -> Iterator[str]:
    by_fields = view.map if isinstance(view.map, FieldMap) else None
    yield "view by fields" if by_fields else "view by a function"
    if not isinstance(view.source, Table):
        yield "view of a view"
    if len(view.reducers) > 1:
        yield "several reducers"
    if view.index:
        yield "plain index"
    if view.sources:
        yield "sources kept"
    if by_fields and by_fields.where is not None:
        yield "where"
    if by_fields and not by_fields.key.single:
        yield "tuple groups"
    for reducer in view.reducers:
        couch = isinstance(reducer, ReduceFunction)
        yield "function as CouchDB has them" if couch else str(reducer.describe()["reducer"])
        if "where" in reducer.describe():
            yield "where of a reducer"
