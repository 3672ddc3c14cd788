"""The app of histories of reduce trees: every reducer without an inverse, mixed, kept, indexed and chained.

With `small_trees`, nodes hold two contributions instead of 32, and a few are written at a time. So a dozen documents
make trees of several levels that grow, shrink, and are written in any order. `tied_hashes` makes most hashes equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import xxhash

from penstock.cache import canonical
from penstock.mapreduce.columns import items
from penstock.mapreduce.nodes import node_format
from penstock.mapreduce.reducers import distinct_quantiles
from penstock.mapreduce.trees import batch_items
from tests.harness.worlds import World
from tests.oracle import ordered as by
from tests.oracle.reducers import Count, Group, Mean, Sum, Variance
from tests.oracle.tables import Table
from tests.oracle.views import Is as Test
from tests.oracle.views import View, Where

UNLUCKY = 13  # the value on which the user's functions fail


class _FewHashes:
    """A replacement of `xxhash` whose hashes differ in only two bits."""

    @staticmethod
    def xxh3_64_intdigest(data: bytes) -> int:
        return (xxhash.xxh3_64_intdigest(data) & 3) << 61


def _without_ranks(hashes: Any, rank: Any) -> Any:
    """A replacement of `source_hash`: of a document's values for a group, all but the first share a hash."""
    return hashes if rank is None else np.where(rank == 0, hashes, hashes ^ np.uint64(5))


@contextmanager
def tied_hashes() -> Iterator[None]:
    """Give many sources and values the same 64 bits of hash."""
    with ExitStack() as stack:
        for module in (items, distinct_quantiles):
            stack.enter_context(mock.patch.object(module, "xxhash", _FewHashes))
        for module in (items, batch_items, node_format):
            stack.enter_context(mock.patch.object(module, "source_hash", _without_ranks))
        yield


class Bag:
    """A user's monoid: the number of values, and the greatest of their bytes. It fails on one value."""

    def zero(self) -> list[Any]:
        return [0, b""]

    def lift(self, value: Any) -> list[Any]:
        if value == UNLUCKY:
            raise ValueError("unlucky")
        return [1, canonical(value)]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        a.append(0)
        return [a[0] + b[0], max(a[1], b[1])]

    def result(self, a: list[Any]) -> dict[str, Any]:
        return {"n": a[0], "last": a[1]}


class Sizes:
    """A user's invertible reducer."""

    zero = 0

    def lift(self, value: Any) -> int:
        return len(canonical(value))

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


def rows(values: list[Any], rereduce: bool) -> Any:
    """Return the number of rows, in the style of CouchDB."""
    return sum(values) if rereduce else len(values)


def least(keys: list[Any] | None, values: list[Any], rereduce: bool) -> Any:
    """Return the least of its values by their bytes. It fails on one value."""
    if rereduce:
        return min(values, key=canonical)
    if UNLUCKY in values:
        raise ValueError("unlucky")
    return min(([key, value] for key, value in zip(keys or (), values, strict=True)), key=canonical)


def words(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield several values per group, some of them equal."""
    for i, group in enumerate(doc["gs"]):
        yield group, doc.get("v") if i % 2 else i
    if doc["gs"]:
        yield doc["gs"][0], doc.get("v")


def paired(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield one value per group, for a view by a function."""
    yield doc["g"], doc.get("v")


def folded(row: Any) -> Iterator[Any]:
    """Yield groups of a chained view: few groups out of many."""
    yield isinstance(row.key, str), row.value


USERS, PLAIN, PATCHED = Table("users", "id", ts="ts"), Table("plain", "id"), Table("patched", "id", "ts", merge="patch")
MIXED = {
    "n": Count(),
    "least": by.Min("v"),
    "most": by.Max("v"),
    "total": Sum("v"),
    "avg": Mean("v"),
    "var": Variance("v"),
    "own": Group("v", Sizes()),
}
CHOSEN = {
    "last": by.Last("v"),
    "first": by.First("v"),
    "by": by.Last("v", "w"),
    "firstly": by.First("w", "v"),
    "some": by.Collect("v", 3),
}
SPREAD = {"n": by.Distinct(), "q": by.Quantiles(None, (0, 0.5, 0.9, 1)), "top": by.Top(None, 3), "sum": Sum()}
WORDS = {
    "n": Count(),
    "max": by.Max(),
    "kinds": by.Distinct(),
    "some": by.Collect(None, 4),
    "bag": by.Monoid(None, Bag()),
}
VIEWS = (
    View("greatest", "users", by.Max(), key="g", value="v", sources=True),
    View("mixed", "users", MIXED, key="g"),
    View("chosen", "users", CHOSEN, key="g"),
    View("spread", "users", SPREAD, key=(), value="v"),
    View("kept", "users", {"n": Count(), "total": Sum("v")}, key=("g", "h"), sources=True),
    View("listed", "users", None, key="g", value="v"),
    View("counted", "users", by.Function(None, rows), key="h", value="v"),
    View("ends", "users", {"last": by.Last(), "first": by.First()}, fn=paired),
    View("words", "plain", WORDS, fn=words),
    View("each", "plain", None, fn=words),
    View("told", "plain", by.Function(None, least, True), fn=words),
    View(
        "lowest",
        "plain",
        {"low": by.Bottom("v", 4), "q": by.Quantiles("w", (0.25, 0.75)), "d": by.Distinct("v")},
        key="g",
    ),
    View("merged", "patched", {"last": by.Last("v"), "max": by.Max("w")}, key="g"),
    View("where", "patched", by.Min("v"), key="g", where=Where("not", (Test("w", ">", 2),))),
    View("over", "mixed", {"n": Count(), "max": by.Max("key"), "rare": by.Bottom("value.most", 2)}, key="value.n"),
    View("under", "mixed", {"last": by.Last("most", "n"), "kinds": by.Distinct("total")}, fn=folded),
    View("again", "listed", by.Max(), fn=lambda row: [(row.key[0], row.value)]),
)
TREES = World((USERS, PLAIN, PATCHED), VIEWS)
