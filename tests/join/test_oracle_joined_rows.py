"""The rows that a transaction takes from a join and adds to it, against a nested loop."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.join import BLOCK, Conditions, Entries, How, SideChange, joined_changes
from penstock.mapreduce import Column, SourceKeys
from tests.join.join_histories import TIES, ListedEntries, entries_of, history, shown_rows


@pytest.mark.parametrize("block", [1, 3, BLOCK])
@pytest.mark.parametrize("how", list(How))
def test_histories_equal_the_nested_loop(how: How, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.join.joined_rows.BLOCK", block)
    faults = [fault for seed in range(block % 100, block % 100 + 10) if (fault := history(seed, how)) is not None]
    assert faults == []


def test_histories_of_tied_positions_equal_the_nested_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    for edit in TIES:
        edit.plant(monkeypatch)
    faults = [fault for seed in range(6) for how in How if (fault := history(seed, how)) is not None]
    assert faults == []


def test_a_condition_value_with_many_matches_is_cut_over_blocks() -> None:
    n = BLOCK + 7
    values, keys = SourceKeys(np.full(n, 5), None), SourceKeys(np.arange(n), None)
    many = Entries.of(values, keys, [Column(np.arange(n))])
    one = Entries.of(SourceKeys(np.array([5]), None), SourceKeys(np.array([1]), None), [])
    none = ListedEntries({}, 1)
    left = SideChange(Entries.none(1), many, none)
    right = SideChange(Entries.none(0), one, none)
    blocks = list(joined_changes(left, right))
    assert [rows.i.size for rows in blocks] == [BLOCK, 7]
    assert np.concatenate([rows.i for rows in blocks]).tolist() == list(range(n))


def test_the_rows_of_one_transaction() -> None:
    minus, plus = entries_of({"a": (1, "old")}), entries_of({"a": (2, "new")})
    other = ListedEntries({"x": (1, 10), "y": (2, 20), "z": (None, 30)}, 1000)
    right = SideChange(Entries.none(1), Entries.none(1), other)
    rows = [
        (rows.plus, row)
        for rows in joined_changes(SideChange(minus, plus, ListedEntries({}, 1)), right)
        for row in shown_rows(rows)
    ]
    assert rows == [(False, (("a", "x"), ("old", 10))), (True, (("a", "y"), ("new", 20)))]


def test_codes_of_condition_values() -> None:
    parts = [entries_of({1: (1.0, 0), 2: (None, 0), 3: (True, 0)}), entries_of({1: (1, 0), 2: ((1, 2), 0)})]
    conditions, codes = Conditions.of(parts)
    assert len(conditions) == 3
    assert codes[0][0] == codes[1][0] >= 0
    assert codes[0][1] == -1
    assert len({*codes[0].tolist(), *codes[1].tolist()}) == 4
    assert all((conditions.find(part) == code).all() for part, code in zip(parts, codes, strict=True))
