"""The contributions behind each result, from `why`, compared with the oracle for every kind of view.

Each view appears in three forms: as it is, with kept contributions, and as a plain index. So the test compares all ways
to the same answer. Nodes hold two contributions, and the node log is written after a few rows. Views hold documents,
and documents are deleted and return with other groups. Segments are folded and compacted between batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import penstock as ps
from penstock.mapreduce import small_trees
from penstock.mapreduce.why import contribution_search
from penstock.views import ReduceFunction
from tests.harness import strategies as some
from tests.harness.checks import counts_of
from tests.harness.worlds import RICH, TINY, World
from tests.oracle import ordered as by
from tests.oracle.model import Model
from tests.oracle.reducers import Count, Given, Sum
from tests.oracle.tables import BROKER, Table
from tests.oracle.values import identity, rank
from tests.oracle.views import Is, View, grouped

LEVELS = View("over", "namecount", {"n": Count(), "most": by.Max("key"), "at": by.Collect("value", 3)}, key="value")
TREES = (
    View("lasting", "users", {"last": by.Last("amount"), "first": by.First("org.name", "name")}, key="name"),
    View("ends", "orders", {"most": by.Max("amount"), "kinds": by.Distinct("org")}, key="org.name"),
    View("deep", "plain", {"whole": by.Distinct("org"), "inner": Count("org.name"), "n": Count("name")}, key="name"),
    View("some_of", "plain", by.Collect(None, 3), key="paid", value="org", where=Is("amount", ">", 0)),
    View("wide", "plain", {"x": Count("name"), "total": Sum("name")}, key="name", value="org"),
    LEVELS,
)


def variants() -> Iterator[View]:
    """Yield every view, a form of it that keeps contributions, and a form as an index."""
    for view in (*RICH.views, *TREES):
        yield view
        yield replace(view, name=f"{view.name}_kept", sources=True)
        yield replace(view, name=f"{view.name}_index", reduce=None)


WORLD = World(RICH.tables, tuple(variants()))


class ProgressSteps:
    """The progress reports of a scan."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.steps.append((done, total))


class Behind:
    """The oracle's contributions at one moment, by view and group, in the order of their contribution sources."""

    def __init__(self, model: Model) -> None:
        self.views = model.views
        self.held = {name: set(recorded.held) for name, recorded in model.told.items()}
        self.rows = {name: dict(rows) for name, rows in model.rows.items()}
        self.stamps: dict[str, dict[Any, Any]] = {}
        self.groups: dict[str, dict[Any, tuple[Any, list[Given]]]] = {}
        for name, recorded in model.told.items():
            found = grouped(recorded.said)
            self.groups[name] = {
                at: (group, sorted(given, key=lambda one: (one.where, one.number)))
                for at, (group, given) in found.items()
            }

    def check(self, snap: ps.Snapshot, choose: Random) -> None:
        """Compare all contributions with those of a snapshot."""
        for name in self.views:
            wanted = list(self.groups[name].values())
            absent = [group for group in ("nobody", (1, 2)) if rank(group) not in self.groups[name]]
            asked = [group for group, _ in wanted] + absent
            choose.shuffle(asked)
            recorded = ProgressSteps()
            found = snap.view(name).why_many(asked, progress=recorded)
            by_group = dict(zip(map(rank, asked), found, strict=True))
            for group in absent:
                assert by_group[rank(group)] == []
            for group, given in wanted:
                self._contributions(name, group, given, by_group[rank(group)])
                self._folds(name, group, given, by_group[rank(group)])
            assert recorded.steps == sorted(recorded.steps)
            assert not recorded.steps or recorded.steps[-1][0] == recorded.steps[-1][1]
            if wanted:
                group = choose.choice(wanted)[0]
                assert identities(snap.view(name).why(group)) == identities(by_group[rank(group)])

    def _contributions(self, name: str, group: Any, given: list[Given], found: list[ps.Contribution]) -> None:
        view, held = self.views[name], self.held[name]
        sources = [(rank(one.key), one.rank) for one in found]
        assert sources == [(one.where, one.number) for one in given], f"{name}, {group!r}: {found}"
        assert [one.held for one in found] == [one.where in held for one in given], f"{name}, {group!r}"
        for one, should in zip(found, given, strict=True):
            shown = as_shown(view, should.value)
            if one.held and not view.fn and not view.sources and view.reduce is not None:
                for reducer in view.reducers:
                    got, wanted = reducer.read(one.value), reducer.read(shown)
                    same = got is None if wanted is None else identity(got) == identity(wanted)
                    assert same or isinstance(reducer, Count), f"{name}, {group!r}: {one}, should be {shown!r}"
                    assert (got is None) == (wanted is None)
            else:
                assert identity(one.value) == identity(shown), f"{name}, {group!r}: {one}, should be {shown!r}"

    def _folds(self, name: str, group: Any, given: list[Given], found: list[ps.Contribution]) -> None:
        """Fold the values with the oracle and with the reducers' own `over`, and compare the results."""
        view = self.views[name]
        if view.reduce is None:
            return
        row = self.rows[name][rank(group)]
        again = [
            Given(group, one.value, one.key, rank(one.key), one.rank, should.ts)
            for one, should in zip(found, given, strict=True)
        ]
        try:
            result = view.result(again)
        except Exception:
            assert row.held
            return
        assert identity(result) == identity(row.result), f"{name}, {group!r}"
        shown = (
            dict(zip(view.reduce, view.reducers, strict=True)) if isinstance(view.reduce, dict) else {"": view.reduce}
        )
        for field, reducer in shown.items():
            if isinstance(reducer, by.Last) and reducer.by is None:
                continue  # by ts, which the values do not contain
            over = OVER[name][field].over([one.value for one in found])
            assert identity(over) == identity(row.result[field] if field else row.result), f"{name}.{field}, {group!r}"


def as_shown(view: View, value: Any) -> Any:
    """Return the shown value of a contribution. Of a document it contains only the fields that reducers read."""
    if view.fn or view.value:
        return value
    paths = sorted({path for one in view.reducers for path in (one.field, getattr(one, "by", None)) if path}, key=len)
    out: dict[str, Any] = {}
    for path in paths:
        *above, last = path.split(".")
        source, target = value, out
        for name in above:
            source = source.get(name) if isinstance(source, dict) else None
            if name in target and not isinstance(target[name], dict):
                break
            target = target.setdefault(name, {})
        else:
            target.setdefault(last, source.get(last) if isinstance(source, dict) else None)
    return out if paths else None


def identities(found: list[ps.Contribution]) -> list[Any]:
    """Return contributions in a form with exact comparison."""
    return [(identity(one.key), one.rank, identity(one.value), one.held) for one in found]


def _over() -> dict[str, dict[str, Any]]:
    """Return the package's reducers by view and field."""
    out: dict[str, dict[str, Any]] = {}
    for view in WORLD.app().views():
        assert not any(isinstance(reducer, ReduceFunction) for reducer in view.reducers)
        out[view.name] = dict(zip(view.fields or ("",), view.reducers, strict=False))
    return out


OVER = _over()


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[Table, Any, Any]]]:
    """Draw batches of documents and deletions: (table, document or None, key or ts)."""
    ts = draw(st.sampled_from([some.NUMBERS, some.INSTANTS]))
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        batch: list[tuple[Table, Any, Any]] = []
        for _ in range(draw(st.integers(1, 8))):
            table = draw(st.sampled_from(RICH.tables))
            beside = draw(st.sampled_from(ts)) if table.ts == BROKER else None
            if draw(st.integers(0, 5)):
                batch.append((table, draw(some.documents(table, ts)), beside))
            else:
                batch.append((table, None, draw(some.keys(table, wrong=False))))
        batches.append(batch)
    return batches


def put(engine: Any, model: Model, batch: list[tuple[Table, Any, Any]]) -> None:
    """Put a batch into the engine and its model."""
    with engine.batch() as real, model.batch() as wanted:
        for table, doc, more in batch:
            for target in (real, wanted):
                if doc is None:
                    target.delete(table.name, more)
                else:
                    target.put(table.name, doc, more)
    assert counts_of(real.counts) == wanted.counts


@settings(max_examples=settings().max_examples // 3)
@hypothesis.given(batches=histories(), choose=st.randoms(use_true_random=False))
def test_what_is_behind_every_result(batches: list[list[tuple[Table, Any, Any]]], choose: Random) -> None:
    with ExitStack() as stack:
        stack.enter_context(small_trees())
        model = WORLD.model()
        engine = stack.enter_context(ps.open(WORLD.app(), None, limits=TINY))
        snapshots: list[tuple[ps.Snapshot, Behind]] = []
        for batch in batches:
            put(engine, model, batch)
            snapshots.append((stack.enter_context(engine.snapshot()), Behind(model)))
            if choose.random() < 0.3:
                snapshots[-1][1].check(snapshots[-1][0], choose)
        for snap, behind in snapshots[-2:]:
            behind.check(snap, choose)


@pytest.mark.parametrize("seed", range(2))
def test_from_another_process_and_of_large_groups(seed: int, tmp_path: Path) -> None:
    """Compare groups with many nodes and all kinds of keys. A reader that cannot write compares them as well."""
    choose, model = Random(seed), WORLD.model()
    with ExitStack() as stack:
        if seed:  # nodes are small and written early, and each block numbers the groups again
            stack.enter_context(small_trees(4, 1 << 20, 30))
            stack.enter_context(mock.patch.object(contribution_search, "MOST_BYTES", 0))
        engine = stack.enter_context(ps.open(WORLD.app(), tmp_path / "state", limits=TINY))
        for _ in range(6):
            put(engine, model, [many(choose) for _ in range(80)])
            with engine.snapshot() as snap:
                Behind(model).check(snap, choose)
        with ps.open(WORLD.app(), tmp_path / "state", readonly=True) as reader, reader.snapshot() as snap:
            Behind(model).check(snap, choose)


NAMES = ["Sue", "Sue", "Sue", "Joe", None, 7, some.LONG + "a", some.LONG + "b", {"a": 1}]


def many(choose: Random) -> tuple[Table, Any, Any]:
    """Return a document or a deletion, from many keys and few groups."""
    table = choose.choice(RICH.tables)
    key = choose.choice([choose.randrange(300), f"k{choose.randrange(40)}", (choose.randrange(9), "x"), some.LONG])
    if choose.random() < 0.1 and not isinstance(table.key, tuple):
        return table, None, key
    doc: dict[str, Any] = {"id": key, "name": choose.choice(NAMES)}
    doc |= {"amount": choose.choice([1, 2.5, None, 1 << 64, "much"]), "paid": choose.random() < 0.9}
    doc |= {"org": {"name": choose.choice(["x", "x", "y"])}, "tags": [choose.choice("ab") for _ in range(2)]}
    ts = choose.randrange(1000)
    if table.ts == BROKER:
        return table, doc, ts
    return table, doc | ({"ts": ts} if table.ts else {}), None
