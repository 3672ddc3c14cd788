"""Rows of emissions, written and read many at once, are the rows that single calls write and read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import canonical
from penstock.mapreduce import FunctionMapper
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.maps.emissions import (
    Emissions,
    emissions_row,
    emissions_rows,
    read_emissions,
    read_joined,
)
from tests.harness.planting import Bug
from tests.mapreduce.maps.test_agreement_yields import GROUPS, MANY, VALUES

Docs = list[list[tuple[Any, Any]]]
ONE_EACH = st.sampled_from(VALUES).flatmap(
    lambda values: st.lists(st.tuples(GROUPS, values).map(lambda pair: [pair]), min_size=1, max_size=8)
)


def mapped(docs: Docs) -> tuple[Emissions, Groups]:
    groups = Groups()
    return FunctionMapper("view", lambda doc: doc, ()).run(docs, groups)[0], groups


def listed(emissions: Emissions, groups: Groups) -> list[list[tuple[bytes, bytes]]]:
    return [[(group, canonical(value)) for group, value in row] for row in emissions.pairs_of_each(groups)]


def check(docs: Docs) -> None:
    emissions, groups = mapped(docs)
    keys = [b"key %d" % i for i in range(len(docs))]
    rows = emissions_rows(keys, emissions, groups)
    each = emissions.each(range(len(docs)))
    assert rows == [(key, emissions_row(key, own, groups)) for key, own in zip(keys, each, strict=True)]
    own = Groups()
    own.code("another group")
    joined = read_joined(keys, [row for _, row in rows], own, "rows")
    assert listed(joined, own) == listed(emissions, groups)
    single, known = mapped([[("z", 1)]])
    rows += emissions_rows([b"single"], single, known)
    joined = read_joined([*keys, b"single"], [row for _, row in rows], own, "rows")
    assert listed(joined, own) == listed(emissions, groups) + listed(single, known)
    for i, (key, row) in enumerate(rows[:-1]):
        assert listed(read_emissions(key, row, own, "rows"), own) == [listed(emissions, groups)[i]]


@given(st.one_of(ONE_EACH, MANY.filter(bool)))
def test_rows_of_many_are_rows_of_each(docs: Docs) -> None:
    check(docs)


FIXED: list[Docs] = [
    [[("a", 1)], [("b", None)], [("a", -2)], [(("a", 1), 0)]],
    [[("a", 1), ("b", 2)], [], [("c", 2.5), ("c", 1)], [("a", "x")]],
    [[("a", None), ("b", None)], [("c", None)]],
]
BUGS = [
    Bug("a null is written as 0", "mapreduce.maps.emissions:emissions_rows", "if is_int else None", ""),
    Bug("each row has the first value", "mapreduce.maps.emissions:emissions_rows", "raw[8 * i : 8 * i + 8]", "raw[:8]"),
    Bug(
        "groups of a row are those of the first",
        "mapreduce.maps.emissions:read_joined",
        "np.repeat(ends[:-1], sizes)",
        "0",
    ),
    Bug("a document without a count has none", "mapreduce.maps.emissions:read_joined", "_ONE * size", "b''"),
]


def test_fixed_rows() -> None:
    for docs in FIXED:
        check(docs)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        test_fixed_rows()
