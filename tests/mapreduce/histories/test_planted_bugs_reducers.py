"""Bugs planted in reducers: seeded histories must find each. The same histories find nothing without a planted bug."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.planting import Bug
from tests.mapreduce.histories.reducer_histories import run
from tests.mapreduce.histories.test_oracle_distinct_sums import DISTINCT, several
from tests.mapreduce.histories.test_oracle_filtered import SUMS, TREES
from tests.mapreduce.histories.test_oracle_single_values import CHOICES, NULLS, ONLY, TRUTHS, rarely
from tests.mapreduce.histories.test_oracle_top import ORDERED

SEEDS = range(4)
BUGS = [
    (
        SUMS,
        Bug(
            "a column under a condition has all values if the condition keeps any",
            "mapreduce.columns.filtered_column:filtered_column",
            "kept is None or kept.all()",
            "kept is None or kept.any()",
        ),
    ),
    (
        SUMS,
        Bug(
            "the first document of a few ignores the condition",
            "mapreduce.small_documents:FewFields._read",
            "if own.where is not None and not reading",
            "if own.where is not None and own.reads_nothing and not reading",
        ),
    ),
    (
        TREES,
        Bug(
            "a tree folds contributions that the condition leaves out",
            "mapreduce.columns.filtered_column:read_column",
            "kept = None if own.where is None else",
            "kept = None if own.where is not None else",
        ),
    ),
    (
        TREES,
        Bug(
            "a contribution of a function ignores the condition",
            "views.filtered_fields:FilteredField.of",
            "if self.where is not None and not",
            "if self.where is None and not",
        ),
    ),
    (
        CHOICES,
        Bug(
            "a value without an order value is chosen",
            "mapreduce.reducers.first_last:Peak._here",
            "for one in (column, by) if",
            "for one in (column,) if",
        ),
    ),
    (
        CHOICES,
        Bug(
            "of equal order values in a node that of the last key is chosen",
            "mapreduce.reducers.first_last:Choice.fold",
            "choose = max if self.late else min",
            "choose = max if self.last else min",
        ),
    ),
    (
        CHOICES,
        Bug(
            "of equal order values in two nodes that of the last key is chosen",
            "mapreduce.reducers.first_last:Peak._chosen",
            "key=lambda own: self._order(own)[1:])",
            "key=lambda own: self._order(own)[1:], reverse=True)",
        ),
    ),
    (
        ONLY,
        Bug(
            "a group with different values is not held",
            "mapreduce.reducers.extremes:Single.failed",
            "if canonical(unified(least)) == canonical(unified(most)):",
            "if canonical(unified(least)) != b'':",
        ),
    ),
    (
        ONLY,
        Bug(
            "a group with 1 and 1.0 is held",
            "mapreduce.reducers.extremes:Single.failed",
            "if canonical(unified(least)) == canonical(unified(most)):",
            "if canonical(least) == canonical(most):",
        ),
    ),
    (
        TRUTHS,
        Bug(
            "false counts as true",
            "views.filtered_fields:FilteredField.formed",
            "int(value) if isinstance(value, bool)",
            "1 if isinstance(value, bool)",
        ),
    ),
    (
        NULLS,
        Bug(
            "null is skipped although it counts",
            "views.filtered_fields:FilteredField.formed",
            "if self.form is FieldForm.BOXED:",
            "if self.form is FieldForm.BOXED and value is not None:",
        ),
    ),
    (
        ORDERED,
        Bug(
            "a field with a minus ascends in a node",
            "mapreduce.reducers.first_last:Ordered.fold",
            "~own if down else own",
            "own",
        ),
    ),
    (
        ORDERED,
        Bug(
            "a field with a minus ascends over several nodes",
            "mapreduce.reducers.first_last:Ordered._first",
            "reverse=down)",
            "reverse=False)",
        ),
    ),
    (
        ORDERED,
        Bug(
            "the last ties of a node are dropped before their keys are compared",
            "mapreduce.reducers.first_last:_first_and_ties",
            "tied <= tied[last]",
            "np.arange(node.size) <= last",
        ),
    ),
    (
        DISTINCT,
        Bug(
            "equal numbers of two types count twice",
            "mapreduce.reducers.distinct_quantiles:DistinctMoments.tallied",
            "least.setdefault(canonical(unified(value)), value)",
            "least.setdefault(canonical(value), value)",
        ),
    ),
    (
        DISTINCT,
        Bug(
            "of equal numbers the last one counts",
            "mapreduce.reducers.distinct_quantiles:DistinctMoments.tallied",
            "key=order_key):",
            "key=order_key, reverse=True):",
        ),
    ),
    (
        DISTINCT,
        Bug(
            "the tally of an inner node is that of its first child",
            "mapreduce.tries.partials:ValueTally.join",
            "self._cell.added(tallies[a:b])",
            "self._cell.added(tallies[a : a + 1])",
        ),
    ),
]


@pytest.mark.parametrize(("reducers", "bug"), BUGS, ids=[bug.name for _, bug in BUGS])
def test_a_planted_bug_is_found(reducers: dict[str, Any], bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    for seed in SEEDS:
        try:
            run(seed, reducers, several if reducers is DISTINCT else rarely)
        except Exception:
            return
    pytest.fail(f"{len(SEEDS)} histories do not find it")
