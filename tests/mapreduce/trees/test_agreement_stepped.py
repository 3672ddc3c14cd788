"""The fold of a root computed from its changes equals the fold of all that remains."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import canonical
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers.contribution_cell import partials_of
from penstock.mapreduce.reducers.extremes import Extreme, Ranking
from tests.harness.planting import Bug

INTS = st.one_of(st.integers(-3, 3), st.sampled_from([-(1 << 63), (1 << 63) - 1]), st.none())
FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan")]), st.none())
ODD = st.one_of(INTS, FLOATS, st.sampled_from(["a", True, Decimal("1.5"), 1 << 70]))
Moves = list[tuple[list[Any], list[Any], list[Any]]]


def moves(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Moves]:
    """Draw for each group the values that stay, that are removed, and that are added."""
    few = st.lists(values, max_size=4)
    group = st.tuples(few, few, few).filter(lambda g: bool(g[0] + g[1]) and bool(g[0] + g[2]))
    return st.lists(group, min_size=1, max_size=4)


def folded(cell: Extreme, values: list[Any]) -> Any:
    """Return the partial of all these values."""
    return cell.join(np.zeros(1, np.int64), Column.of(values), lambda: [None]).values()[0]


def side(parts: list[list[Any]]) -> tuple[Column, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the values of groups as a column, with the group of each."""
    values = [v for part in parts for v in part]
    return Column.of(values), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


@pytest.mark.parametrize("greatest", [True, False])
@given(groups=st.one_of(moves(INTS), moves(FLOATS), moves(ODD)))
def test_a_step_is_a_fold_where_it_is_sure(greatest: bool, groups: Moves) -> None:
    cell = Extreme(None, greatest)
    before = Column.of([folded(cell, stay + go) for stay, go, _ in groups])
    came, here = side([come for _, _, come in groups])
    went, gone = side([go for _, go, _ in groups])
    found = cell.stepped(before, came, here, went, gone)
    if found is None:
        return
    column, sure = found
    for (stay, go, come), told, known in zip(groups, column.values(), sure.tolist(), strict=True):
        if known:
            assert canonical(told) == canonical(folded(cell, stay + come))
        else:
            assert go, "what only gains is sure"


@pytest.mark.parametrize("greatest", [True, False])
def test_what_is_plain_is_sure(greatest: bool) -> None:
    cell, sign = Extreme(None, greatest), 1 if greatest else -1
    before = Column.of([5 * sign, 5 * sign, 5 * sign, 5 * sign])
    came, here = side([[7 * sign], [], [5 * sign], [4 * sign]])
    went, gone = side([[5 * sign], [4 * sign], [5 * sign], [5 * sign]])
    found = cell.stepped(before, came, here, went, gone)
    assert found is not None
    assert found[1].tolist() == [True, True, True, False], "only of the last the greatest went, and nothing replaces it"
    assert found[0].values()[:3] == [7 * sign, 5 * sign, 5 * sign]


@pytest.mark.parametrize("greatest", [True, False])
@given(groups=st.one_of(moves(INTS), moves(FLOATS), moves(ODD)), n=st.integers(1, 4))
def test_a_step_of_a_ranking_is_a_fold_where_it_is_sure(greatest: bool, groups: Moves, n: int) -> None:
    check_ranking(greatest, groups, n)


def check_ranking(greatest: bool, groups: Moves, n: int) -> int:
    """Compare the steps that are sure with folds of all values, and return their number."""
    cell = Ranking(None, n, greatest)
    before = partials_of([cell.fold_small(stay + go) for stay, go, _ in groups])
    came, here = side([come for _, _, come in groups])
    went, gone = side([go for _, go, _ in groups])
    found = cell.stepped(before, came, here, went, gone)
    if found is None:
        return 0
    column, sure = found
    for (stay, go, come), told, known in zip(groups, column.values(), sure.tolist(), strict=True):
        if known:
            assert canonical(told) == canonical(cell.fold_small(stay + come))
        else:
            assert go, "a group that only gains is sure"
    return int(sure.sum())


RANKED: Moves = [
    ([9, 8, 7, 1], [], [8, 10]),
    ([9, 7, 1], [8], [7]),
    ([9, 7, 1], [8], [0]),
    ([9, 7], [], [5, 3]),
    ([9], [7], []),
    ([7, 7, 7], [7], [7]),
    ([9, 8, 7], [2, 2], [3]),
    ([None, 9], [8], [None]),
]


def test_rankings_of_which_enough_stays_are_sure() -> None:
    assert check_ranking(True, RANKED, 3) == 7, "only the second of two that lost a value gained a worse one"
    assert check_ranking(False, [([9, 8], [1], [9])], 2) == 0
    assert check_ranking(False, [([9, 2], [1], [2]), ([0.5, -0.0], [0.0], [-0.0])], 2) == 0, "kinds differ"
    assert check_ranking(False, [([9, 2], [1], [2])], 2) == 1
    assert check_ranking(True, [([0.5, -0.0, float("nan")], [0.0], [1.5])], 2) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("~full |", "full | ~full |"),
        ("np.clip(counts, 0, self.n)", "np.ones_like(counts)"),
        ("values[a : min(b, a + self.n)]", "values[a:b]"),
        ("own <= last[places]", "own < last[places]"),
        ("if self.greatest else code", "if not self.greatest else code"),
    ],
)
def test_a_bug_in_the_step_of_a_ranking_is_found(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Bug("planted", "mapreduce.reducers.extremes:Ranking.stepped", old, new).plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_rankings_of_which_enough_stays_are_sure()
