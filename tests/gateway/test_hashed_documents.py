"""Documents in the order of the hashes of their keys, in parts: each is read once, in its newest version."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import Limits, MemoryStore
from penstock.engine import open_on
from penstock.gateway import Tails, unwrap
from tests.harness.planting import Bug

LIMITS = Limits(fold_least=20, fold_most=30, fold_buckets=16, space=1.5, entries=4)  # a fold is one step
KEYS: list[Any] = [*range(40), *(f"key {i}" for i in range(40)), *(("a", i) for i in range(5))]


def history(seed: int) -> None:
    """Compare the parts of a table with all of its lines, while documents come, change and go."""
    choose = Random(seed)
    app = ps.App("hashed")
    app.table("docs", key="id", ts=choose.choice(["ts", None]))
    engine, core = open_on(app, MemoryStore(), LIMITS, seed)
    for now in range(12):
        for key in choose.sample(KEYS, 3):
            stamp: dict[str, Any] = {"ts": now} if app.table_of("docs").has_ts else {}
            engine.delete("docs", key, **stamp)
        keys = choose.sample(KEYS, choose.randrange(1, 30))
        engine.put_many("docs", [{"id": list(key) if isinstance(key, tuple) else key, "ts": now} for key in keys])
        core.tails = Tails()  # the tail begins where the index ends
        with engine.snapshot() as snap:
            table, found = snap.log("docs"), list[bytes]()
            begin: int | None = 0
            while begin is not None:
                most = choose.choice([1, 3, 50])
                block, end = table.hashed_from(begin, most)
                assert len(block.lines) <= most
                found += block.lines
                begin = end
            assert sorted(present(found)) == sorted(present(table.lines()))


def present(lines: Any) -> list[bytes]:
    return [bytes(line) for line in lines if not unwrap(line).absent]


def histories() -> None:
    for seed in range(4):
        history(seed)


def test_each_document_is_in_one_part() -> None:
    histories()


@pytest.mark.parametrize(
    "bug",
    [
        Bug(
            "documents of the tail are left out",
            "gateway.document_reader:TableReader.hashed_from",
            "records[found]",
            "records[:0]",
        ),
        Bug(
            "an older version is read too",
            "gateway.document_reader:TableReader.hashed_from",
            "if name not in known",
            "if name",
        ),
        Bug(
            "the first row of a part is left out",
            "cache.log.hash_index:entries_from",
            "first[0])",
            'first[0] + b"\\0")',
        ),
        Bug("a part begins again", "cache.log.hash_index:entries_from", "np.uint64(begin)", "np.uint64(0)"),
    ],
    ids=lambda bug: bug.name,
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        histories()
