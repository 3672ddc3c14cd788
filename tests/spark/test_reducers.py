"""Backfill and verify of reducers with options: the tasks run in the test, so it needs no Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.spark import verify
from tests.mapreduce.histories.reducer_histories import app_of, history
from tests.mapreduce.histories.test_oracle_distinct_sums import DISTINCT
from tests.mapreduce.histories.test_oracle_filtered import SUMS, TREES
from tests.mapreduce.histories.test_oracle_single_values import CHOICES, NULLS, TRUTHS
from tests.mapreduce.histories.test_oracle_top import ORDERED
from tests.spark.both import agreed, in_small_parts
from tests.spark.inprocess import InProcess

SINGLE = {**TRUTHS, **CHOICES, **NULLS, **ORDERED, **DISTINCT}


@pytest.mark.parametrize("reducers", [SUMS, TREES, SINGLE], ids=["sums", "trees", "single values"])
def test_a_backfill_has_the_rows_of_the_engine_and_verify_agrees(
    reducers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app, offset, records = app_of(reducers), 0, list[ps.Record]()
    for batch in history(1):
        for record in batch:
            offset += 1
            records.append(ps.Record(record.table, record.key, record.doc, offset=offset))
    in_small_parts(monkeypatch)
    agreed(monkeypatch, tmp_path, app, records)
    found = verify(app, tmp_path / "store", spark=InProcess())
    assert found.wrong == [], str(found)
