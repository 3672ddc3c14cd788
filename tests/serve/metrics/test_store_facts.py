"""Facts of a store at a scrape: the age of snapshots, and changes of the feed."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.serve.metrics.store_facts import FactReader
from tests.serve.asgi import shop


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_age_of_a_snapshot_counts_from_the_first_scrape(tmp_path: Path, partitions: int) -> None:
    now = 100.0
    with ps.open(shop(), tmp_path / "state", partitions=partitions, processes=False) as engine:
        facts = FactReader(lambda: engine, lambda: now)
        assert facts.read().snapshot_age == 0
        with engine.snapshot():
            assert facts.read().snapshot_age == 0
            now = 107.0
            assert facts.read().snapshot_age == 7
            engine.put("orders", {"id": 1, "ts": 1, "country": "NO", "day": 1, "amount": 2})
            with engine.snapshot():
                now = 109.0
                assert facts.read().snapshot_age == 9
        assert facts.read().snapshot_age == 0
        assert facts.read().fed == 2
        assert len(facts.read().pending) == (partitions if partitions > 1 else 0)


def test_a_store_in_memory_has_no_files() -> None:
    with ps.open(shop(), None) as engine:
        found = FactReader(lambda: engine).read()
    assert (found.snapshot_age, found.disk_free, found.sources) == (0, None, [])
