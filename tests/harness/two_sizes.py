"""Histories through both forms of the pipeline: one engine processes small batches value by value, its twin by columns.

Both use stores in memory that start with the same bytes, and fold and compact in tiny steps. After each step three
things must be equal: the calls' counts, every row of every database, and the memory of each key and group.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any
from unittest import mock

import penstock as ps
from penstock.cache import GONE, LOADED, PRESENT, decode_key
from penstock.mapreduce import ReduceNode
from penstock.views import Merge
from tests.harness.checks import counts_of
from tests.harness.histories import small_buckets
from tests.harness.worlds import TINY, Polynomial

KEYS: list[Any] = [1, 2, 3, -7, 1 << 63, "a", "b", "é", True, 1.0, 2.5, [1, "x"]]
NAMES: list[Any] = ["Sue", "Joe", "Bob", "é", None, 1, 1.0, True, 7.5, "", [1, "a"], "x" * 450]
AMOUNTS: list[Any] = [0, 1, 2, -7, 300, 70_000, None, None]
NUMBERS: list[Any] = [0.5, 0.0, (1 << 63) - 1, 1 << 62, 1 << 64, 1e300, math.nan, Decimal("3.30"), Decimal(2)]
WRONG: list[Any] = ["much", True, [1], {"a": 1}]
BAD_KEYS: list[Any] = [None, None, {"a": 1}, "x" * 70_000]
BAD_TS: list[Any] = [None, "soon", True, math.nan]
BROKEN = ["{", "[1]", '{"id": NaN}', '{"id": 1} {"id": 2}']
SIZES = [1, 1, 1, 1, 2, 3, 5, 16]


class Functions:
    """The functions of one app. `calls` counts the documents that each one gets."""

    def __init__(self, calls: Counter[str]) -> None:
        self._calls = calls

    def one_each(self, doc: dict[str, Any]) -> Iterator[Any]:
        """Yield a group with a value for each document, and spoil the document."""
        self._calls["one_each"] += 1
        yield doc["name"], doc["amount"]
        doc.clear()

    def initials(self, doc: dict[str, Any]) -> Iterator[Any]:
        """Yield a group. A name without a first letter is an error."""
        self._calls["initials"] += 1
        yield doc["name"][0]
        doc["tags"].append("spoilt")

    def tagged(self, doc: dict[str, Any]) -> Iterator[Any]:
        """Yield the same groups, each with a value."""
        self._calls["tagged"] += 1
        for i, tag in enumerate(doc["tags"]):
            yield tag, [i, doc.get("name")]

    def tags(self, doc: dict[str, Any]) -> Iterator[Any]:
        """Yield any number of groups, some twice, some with a value."""
        self._calls["tags"] += 1
        for tag in doc["tags"]:
            yield (tag, doc.get("paid")), doc.get("amount")
            yield tag
        doc["tags"].clear()


def app(calls: Counter[str]) -> ps.App:
    """Return an app with tables of every kind of version, and views that differ in reading, folding and storing."""
    functions = Functions(calls)
    out = ps.App("sizes")
    users = out.table("users", key="id", ts="ts")
    plain = out.table("plain", key="id")
    pairs = out.table("pairs", key=("id", "org.name"), ts="ts")
    heard = out.table("heard", key="id", ts="@kafka")
    for ts in (None, "ts"):
        patched = out.table("stamped" if ts else "patched", key="id", ts=ts, merge="patch")
        name = patched.name
        patched.view(f"{name}_names", key="name", reduce={"n": ps.count(), "total": ps.sum("amount")})
        patched.view(f"{name}_tags", reduce=ps.count())(functions.tags)
        patched.view(f"{name}_most", key="paid", reduce=ps.max("amount") if ts is None else ps.last("amount"))
    names = users.view("names", key="name", reduce=ps.count())
    sums = {"n": ps.count(), "some": ps.count("amount"), "total": ps.sum("amount"), "avg": ps.mean("amount")}
    spread = {"var": ps.variance("amount"), "bins": ps.histogram([-1, 0, 0.5, 10], "amount")}
    users.view("sums", key=("name", "org.name"), where=~(ps.field("amount") > 100_000), reduce=sums | spread)
    users.view("paid", key="org.name", value="amount", where="paid", reduce=ps.sum())
    users.view("yielded", reduce=ps.sum())(functions.one_each)
    names.view("lengths", reduce=ps.sum())(lambda row: [(len(str(row.key)), row.value)])
    names.view("counts", key="value", reduce=ps.count())
    plain.view("initials", reduce=ps.count())(functions.initials)
    plain.view("tags", reduce={"n": ps.count(), "total": ps.group(Polynomial())})(functions.tags)
    plain.view("all", key=(), reduce={"total": ps.sum("amount"), "of_tags": ps.group(Polynomial(), "tags")})
    pairs.view("where", key="name", where=(ps.field("amount") >= 1) & (ps.field("name") != "Sue"), reduce=sums)
    heard.view("hearsay", key="name", reduce=ps.mean("amount"))
    # views that keep contributions
    users.view("most", key="name", reduce={"n": ps.count(), "max": ps.max("amount"), "last": ps.last("paid")})
    plain.view("tagged", reduce=ps.top(2))(functions.tagged)
    pairs.view("kept", key="name", value="amount", reduce=ps.count(), sources=True, where="paid")
    heard.view("first", key=("name", "paid"), reduce=ps.first("amount"))
    heard.view("index", key="paid", value="amount", reduce=None)
    return out


TABLES = ["users", "users", "plain", "pairs", "heard", "patched", "stamped"]
WITH_TS = ("users", "pairs", "stamped")


class TwoSizes:
    """The two engines and the steps on them, all drawn by `choose`."""

    def __init__(self, choose: Random, odd: float = 0.08, few: int = 16) -> None:
        self.choose = choose
        self.odd = odd
        self.clock = 0
        self.texts = choose.random() < 0.3  # a ts is RFC 3339 text
        self.known: list[tuple[str, dict[str, Any]]] = []
        with mock.patch("secrets.randbits", return_value=1234567):
            limits = [replace(TINY, few=most) for most in (few, 0)]
            self.calls: list[Counter[str]] = [Counter(), Counter()]
            self.engines: list[Any] = [
                ps.open(app(calls), None, limits=own) for calls, own in zip(self.calls, limits, strict=True)
            ]

    def run(self, steps: int) -> None:
        """Run some steps, and compare after each."""
        with small_buckets():
            for _ in range(steps):
                self.clock += 1
                self.choose.choice(
                    [*[self.put] * 4, self.many, self.many, self.delete, self.batch, self.back, self.forget]
                )()
                self.check()

    # -- steps

    def put(self) -> None:
        """Put one document."""
        table = self.table()
        doc, ts = self.document(table), self.ts() if table == "heard" else None
        self._both("put", table, doc, ts)

    def many(self) -> None:
        """Put several documents as dicts or as JSON. Some batches are one larger than the limit of small batches."""
        table = self.table()
        size = self.choose.choice([*SIZES, 17])
        docs: list[Any] = [self.document(table) for _ in range(size)]
        if self.choose.random() < 0.3:
            docs = [_json(doc) for doc in docs]
        if self.choose.random() < self.odd:
            docs.append(self.choose.choice(BROKEN))
        self._both("put_many", table, docs)

    def back(self) -> None:
        """Replace a document, and restore it in the same batch."""
        known = [doc for name, doc in self.known if name == "plain" and isinstance(doc["id"], int | str)]
        if known:
            doc = self.choose.choice(known)
            self._both("put", "plain", doc)
            self._both("put_many", "plain", [doc | {"paid": "otherwise"}, doc])

    def delete(self) -> None:
        """Delete one key."""
        self._both("delete", *self.deletion(self.table()))

    def batch(self) -> None:
        """Run one transaction over several tables."""
        steps: list[tuple[str, Any]] = []
        for _ in range(self.choose.choice(SIZES)):
            table = self.table()
            if self.choose.random() < 0.4:
                steps.append(("delete", self.deletion(table)))
            else:
                steps.append(("put", (table, self.document(table), self.ts() if table == "heard" else None)))
        counts = []
        for engine in self.engines:
            with engine.batch() as batch:
                for call, args in steps:
                    getattr(batch, call)(*args)
            counts.append(counts_of(batch.counts))
        assert counts[0] == counts[1], f"batch: {counts[0]} in the small form, {counts[1]} in columns; {steps}"

    def forget(self) -> None:
        """Drop the caches, as when memory runs out."""
        for engine in self.engines:
            for node in engine.store.core.tables.values():
                node.forget()

    # -- records

    def table(self) -> str:
        return self.choose.choice(TABLES)

    def key(self, table: str) -> Any:
        key = self.choose.choice(BAD_KEYS if self.choose.random() < self.odd / 2 else KEYS)
        return (key, self.choose.choice(["x", None])) if table == "pairs" else key

    def ts(self) -> Any:
        """Draw a later, equal or late ts: an int, a float, a text, or rarely a bad one."""
        if self.choose.random() < self.odd / 3:
            return self.choose.choice(BAD_TS)
        at = max(1, self.clock + self.choose.choice([1, 0, 0, -1, -4]))
        if self.texts:
            return f"2024-01-01T00:{at // 60:02}:{at % 60:02}Z"
        return self.choose.choice([at, at, at, float(at), at + 0.5, at + (1 << 64)])

    def document(self, table: str) -> dict[str, Any]:
        """Return a document of a table. It may be an earlier document again."""
        pick, chance = self.choose.choice, self.choose.random
        known = [doc for name, doc in self.known if name == table]
        if known and chance() < 0.2:
            return pick(known)
        key = self.key(table)
        doc: dict[str, Any] = {"id": key[0] if table == "pairs" else key}
        if table == "pairs" or chance() < 0.5:
            doc["org"] = {"name": key[1] if table == "pairs" else pick(["x", "y", None, 2])}
        if table in WITH_TS:
            doc["ts"] = self.ts()
        doc["name"] = pick([{}, {"a": 1}]) if chance() < self.odd / 3 else pick(NAMES)
        doc["amount"] = pick(WRONG if chance() < self.odd / 3 else NUMBERS if chance() < self.odd else AMOUNTS)
        doc["tags"] = [pick(["red", "blue", 1, None]) for _ in range(pick([0, 1, 1, 2]))]
        doc["paid"] = pick([True, False, None, 1])
        if chance() < 0.1:
            del doc[pick(["name", "amount", "tags", "paid"])]
        self.known.append((table, doc))
        return doc

    def deletion(self, table: str) -> tuple[str, Any, Any]:
        """Draw the table, key and ts of a deletion. Half the keys are of earlier documents."""
        known = [doc for name, doc in self.known if name == table]
        key = self.key(table)
        if known and self.choose.random() < 0.5:
            doc = self.choose.choice(known)
            key = (doc["id"], doc["org"]["name"]) if table == "pairs" else doc["id"]
        stamped = table in (*WITH_TS, "heard") and self.choose.random() < 0.7
        return table, key, self.ts() if stamped else None

    # -- comparison

    def _both(self, call: str, *args: Any) -> None:
        small, large = (counts_of(getattr(engine, call)(*args)) for engine in self.engines)
        assert small == large, f"{call}: {small} in the small form, {large} in columns; {args}"

    def check(self) -> None:
        """Check that all stored rows and all memory are equal."""
        small, large = (engine.store.core.store.databases for engine in self.engines)
        for name in sorted(small.keys() | large.keys()):
            one, two = (stored[name].rows if name in stored else {} for stored in (small, large))
            for key in sorted(one.keys() | two.keys()):
                assert one.get(key) == two.get(key), f"{name}, {key!r}: {one.get(key)!r}, in columns {two.get(key)!r}"
        assert self.calls[0] == self.calls[1], "functions are run as often"
        for name in self.engines[0].store.core.tables:
            one, two = (dict(_remembered(engine.store.core.tables[name])) for engine in self.engines)
            _compare(f"memory of table {name}", one, two)
        for name in self.engines[0].store.core.views:
            one, two = (dict(_accumulated(engine.store.core.views[name])) for engine in self.engines)
            _compare(f"memory of view {name}", one, two)


def _compare(what: str, one: dict[Any, Any], two: dict[Any, Any]) -> None:
    for key in one.keys() | two.keys():
        assert _shown(one.get(key)) == _shown(two.get(key)), (
            f"{what}, {key!r}: {one.get(key)}, in columns {two.get(key)}"
        )


def _shown(value: Any) -> Any:
    """Return a value in a form to compare: 1, 1.0 and True differ, and NaN equals itself."""
    if isinstance(value, list | tuple):
        return [type(value), *map(_shown, value)]
    return type(value), repr(value)


def _remembered(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the memory of each key: the place of its log line, its ts, and its remembered emissions."""
    keys, memory = node.log.keys, node.memory
    groups = [node.spaces.groups(key) for key in memory.codes]
    views = {view.name: view for view in node.views}
    used = keys.map.used
    flag = [False] * used
    for slot in itertools.chain(keys._single, *(slots.tolist() for slots in keys._dirty)):
        flag[slot] = True
    for slot in range(used):
        k1 = 0 if keys.map.lane1 is None else keys.map.lane1.item(slot)
        state = keys.state.item(slot)
        facts: list[Any] = []
        loaded = bool(state & LOADED and state & (PRESENT | GONE))
        if loaded and state & PRESENT:
            reading = memory.read(slot)
            facts += [_group(own, code) for own, code in zip(groups, reading.codes, strict=True)]
            facts += [reading.values, reading.conditions]
            for name, column in memory.functions.items():
                facts.append([(_group(views[name].groups, code), value) for code, value in column.take_one(slot)])
        ts = memory.stamp(slot) if loaded and memory.lo is not None and node.table.merge is Merge.REPLACE else None
        yield (keys.map.lane0.item(slot), k1), (keys.record.item(slot), state, flag[slot], ts, facts)
    yield "held", {view: len(held) for view, held in node.deltas.held.items()}
    yield "kind", node.ts_kind


def _group(groups: Any, code: int) -> Any:
    return code if code < 0 else decode_key(groups.whole(code))


def _accumulated(view: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the accumulators in memory of each group with contributions."""
    if not isinstance(view.reduce, ReduceNode):
        return
    memory, groups = view.reduce.memory, view.groups
    for code in range(min(groups.size, memory.n.size)):
        if memory.n[code]:
            lanes = [lane[:, code].tolist() for lane in memory.lanes]
            spills = [own.get(code) for own in memory.spills]
            yield groups.whole(code), (memory.n.item(code), lanes, spills, memory.held.get(code))


def _json(doc: dict[str, Any]) -> str:
    """Return a document as JSON, with 1 for values that JSON lacks."""

    def plain(value: Any) -> Any:
        return 1 if isinstance(value, Decimal) or value != value else value

    return json.dumps({name: plain(value) for name, value in doc.items()})


def run(seed: int, steps: int, few: int = 16) -> None:
    """Run one history. An AssertionError names the differences."""
    TwoSizes(Random(seed), few=few).run(steps)
