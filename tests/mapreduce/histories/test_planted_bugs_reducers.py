"""Bugs planted in reducers: seeded histories must find each. The same histories find nothing without a planted bug."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.planting import Bug
from tests.mapreduce.histories.reducer_histories import run
from tests.mapreduce.histories.test_oracle_filtered import SUMS, TREES

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
]


@pytest.mark.parametrize(("reducers", "bug"), BUGS, ids=[bug.name for _, bug in BUGS])
def test_a_planted_bug_is_found(reducers: dict[str, Any], bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    for seed in SEEDS:
        try:
            run(seed, reducers)
        except Exception:
            return
    pytest.fail(f"{len(SEEDS)} histories do not find it")
