"""Ints with more digits than Python prints: users can print every result and error that contains them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest

import penstock as ps
from penstock.cache import int_to_text, repr_of
from penstock.recovery.oracle.plain_values import packed
from penstock.spark.backfill_job.records_by_key import _key_of

N = 10**8_999 + 7


def app() -> ps.App:
    out = ps.App("digits")
    table = out.table("t", key="id", ts="ts")
    table.view("sums", key="g", reduce=ps.sum("v"))
    table.view("max", key="g", value="v", reduce=ps.max())
    table.view("index", key="g", value="v", reduce=None)
    table.view("fields", key="g", reduce={"n": ps.count(), "all": ps.collect(5, "v"), "sd": ps.stddev("v")})
    table.view("where", key="g", where=ps.field("v") == N, reduce=ps.count())

    @table.view(reduce=ps.sum())
    def function(doc: dict[str, Any]) -> Iterator[Any]:
        yield doc["g"], doc["v"]
        if doc["id"] == 5:
            yield "big", "text"

    @table.view(reduce=ps.count())
    def failing(doc: dict[str, Any]) -> Iterator[Any]:
        raise ValueError(doc["v"])

    @table.view(reduce=ps.count())
    def grouped(doc: dict[str, Any]) -> Iterator[Any]:
        yield doc["v"]

    return out


DOCS: tuple[dict[str, Any], ...] = (
    {"id": 1, "g": "a", "v": N, "ts": 1},
    {"id": 2, "g": "a", "v": -N, "ts": N},
    {"id": N, "g": "a", "v": 1, "ts": 1},
    {"id": 3, "g": N, "v": 1, "ts": 1},
    {"id": (1, N), "g": 1, "v": 1, "ts": 1},
    {"id": 4, "g": ["x", N], "v": 2, "ts": 1},
    {"id": 5, "g": "a", "v": N, "ts": 3},
    {"id": 6, "g": "b", "v": {"x": N}, "ts": 3},
)
GROUPS = (N, "a", ("x", N))


def shown(call: Callable[[], Any]) -> None:
    """Print the result of a call and its parts, or its error. The error is a PenstockError or a KeyError."""
    try:
        found = call()
        if isinstance(found, Iterator):
            found = list(islice(found, 1_000))
    except (ps.PenstockError, KeyError) as error:
        found = error
    if isinstance(found, Exception):
        text = "".join(traceback.format_exception_only(found))
        assert "str() failed" not in text, text
    for one in found if isinstance(found, list | tuple) else [found]:
        if isinstance(one, ps.Row) or not isinstance(one, int | str | list | tuple | dict | None):
            assert repr(one)
            assert str(one)


def calls_of_writer(engine: ps.Engine) -> Iterator[Callable[[], Any]]:
    e = engine
    for doc in DOCS:
        yield lambda doc=doc: e.put("t", doc)
        yield lambda doc=doc: e.put_many("t", [doc], strict=True)
        yield lambda doc=doc: e.repost("t", doc)
        yield lambda doc=doc: ps.Record("t", doc["id"], doc, doc["ts"], 0)
        yield lambda doc=doc: e.ingest([ps.Record("t", doc["id"], doc, doc["ts"], 0)], source="s", resume=1)
    yield lambda: e.delete("t", N)
    yield lambda: e.delete("t", 2, ts=N)
    yield lambda: e.put("t", {"id": 1}, ts=N)
    for wanted in ({}, {"ids": N}, {"limit": N}, {"kind": N}, {"table": N}):
        yield lambda wanted=wanted: e.quarantine(**wanted)
    yield e.retry
    yield lambda: e.check(fix=True)
    for name, key in (("function", N), ("t", N), ("function", "a"), ("t", 1)):
        yield lambda name=name, key=key: e.restate(name, key)
    yield lambda: e.changes("sums", "max", "fields", initial=True)
    yield lambda: e.feed("sums", "max", "fields", initial=True)
    yield lambda: e.changes("sums", since=N)
    yield lambda: e.preview(app())


def calls_of_reader(snap: ps.Snapshot) -> Iterator[Callable[[], Any]]:
    for name in ("sums", "max", "index", "fields", "where", "function", "failing", "grouped"):
        view = snap.view(name)
        for group in GROUPS:
            for method in ("get", "row", "why", "rollup", "__getitem__", "__contains__"):
                yield lambda view=view, method=method, group=group: getattr(view, method)(group)
            yield lambda view=view, group=group: view.why_many([group])
            for asked in ({"prefix": group}, {"start": group, "through": N}, {"limit": N}):
                yield lambda view=view, asked=asked: view.items(**asked)
        yield view.items
        yield lambda view=view: view.rollup(0)
    table = snap.table("t")
    for key in (N, (1, N), 1, 2):
        for method in ("get", "row", "__getitem__", "__contains__"):
            yield lambda key=key, method=method: getattr(table, method)(key)
    yield table.items


def calls_of_definitions() -> Iterator[Callable[[], Any]]:
    field, table = ps.field("v"), lambda: ps.App("b").table("t", key="id")
    yield lambda: [field == N, (field < N) & ~(field > N)]
    yield lambda: [ps.top(N), ps.bottom(N), ps.collect(N), ps.histogram([1, N])]
    yield lambda: ps.quantiles([Fraction(1, N)])
    yield lambda: ps.quantiles([Decimal("0." + "1" * 5_000)])
    yield lambda: table().view("x", key="g", where=field == N, reduce=ps.top(N, "v"))
    yield lambda: table().view("x", key=N, reduce=ps.count())
    for option in ("partitions", "memory", "changes", "limits", "mode"):
        yield lambda option=option: ps.open(app(), None, **{option: N})


@pytest.mark.parametrize("partitions", [1, 2])
def test_all_that_users_get_can_be_shown(partitions: int) -> None:
    with ps.open(app(), None, partitions=partitions) as engine:
        for call in calls_of_writer(engine):
            shown(call)
        with engine.snapshot() as snap:
            assert snap.view("max")["a"] == N
            for call in calls_of_reader(snap):
                shown(call)
    for call in calls_of_definitions():
        shown(call)


@pytest.mark.parametrize(
    "value",
    [
        ps.Row(N, N),
        ps.Row(N, N, held=True),
        ps.Change("v", N, N, N, 1),
        ps.Contribution(N, 0, N),
        ps.Repaired("v", N, N, N),
        ps.Quarantined("r1", ps.QuarantineKind.RECORD, "t", "reason", key=(N,), document={"v": [N]}),
        ps.Record("t", N, {"id": N}),
    ],
)
def test_a_repr_has_all_digits(value: Any) -> None:
    assert int_to_text(N) in repr(value)


def test_a_repr_of_small_values_is_that_of_a_dataclass() -> None:
    assert repr(ps.Change("v", "a", ps.ABSENT, 1, 7)) == "Change(view='v', group='a', old=ABSENT, new=1, position=7)"
    assert repr_of({"b": [1, (2,)], "a": {3}, "n": None}) == "{'b': [1, (2,)], 'a': {3}, 'n': None}"
    big = int_to_text(N)
    assert repr_of({"b": [N, (2,)], "a": {3}, "n": None}) == f"{{'b': [{big}, (2,)], 'a': {{3}}, 'n': None}}"


def test_the_oracle_takes_them_too() -> None:
    with ps.open(app(), None) as engine:
        engine.put_many("t", [{"id": i, "g": 1, "v": N + i, "ts": 1} for i in range(3)])
        with engine.snapshot() as snap:
            assert snap.view("fields")[1]["all"] == [N, N + 1, N + 2]
        assert not engine.check().wrong
    assert packed(N).endswith(int_to_text(N).encode())


def test_the_key_of_a_deletion_in_a_bulk_load_is_read_as_by_a_spout() -> None:
    assert _key_of(int_to_text(N).encode()) == N
    assert _key_of(b'{"shop": "x", "number": 2}') == ("x", 2)
