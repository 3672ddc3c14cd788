"""Bugs planted in tasks, loads and comparisons: histories by both paths must find each of them.

Tasks run in this process (`inprocess.py`), so that they have the bugs. Without a bug the same histories agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import canonical
from penstock.spark import backfill, verify
from tests.harness.planting import Bug
from tests.harness.worlds import RICH
from tests.mapreduce.trees.tree_worlds import TREES
from tests.recovery import damage
from tests.spark.backfill_job.test_agreement_backfill import rich_record, tree_record
from tests.spark.both import agreed, in_small_parts, same
from tests.spark.inprocess import InProcess


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use many buckets and many ranges of a few records each."""
    in_small_parts(monkeypatch)


def unordered(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Check files of a folder: of versions with equal ts the greater bytes win."""
    app = ps.App("ties")
    users = app.table("users", key="id", ts="ts")
    users.view("names", key="name", reduce=ps.count())
    (folder / "dump").mkdir()
    docs = [{"id": i % 7, "name": f"n{i * 5 % 11}", "ts": i % 3} for i in range(60)]
    for at in range(0, 60, 20):
        (folder / "dump" / f"{at}.jsonl").write_text("".join(json.dumps(d) + "\n" for d in docs[at : at + 20]))
    with ps.open(app, None) as engine:
        for doc in sorted(docs, key=canonical):
            engine.put("users", doc)
        backfill(app, folder / "store", spark=InProcess(), users=folder / "dump")
        same(app, engine, folder / "store")


def files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Check a file in parts with rejected lines: places, notes and rejections equal those of `load`."""
    monkeypatch.setattr(sys.modules["penstock.spark.backfill_job.table_inputs"], "PART", 300)
    app = ps.App("files")
    app.table("users", key="id", ts="ts").view("names", key="name", reduce=ps.count())
    lines = [json.dumps({"id": i % 20, "name": f"n{i % 3}", "ts": i}) for i in range(60)]
    lines[31] = "no json"
    (folder / "users.jsonl").write_text("\n".join(lines) + "\n")
    done = backfill(app, folder / "store", spark=InProcess(), users=folder / "users.jsonl")
    with ps.open(app, folder / "store") as engine, engine.snapshot() as snap:
        [entry] = engine.quarantine()
        assert (entry.place, done.rejected) == (f"{folder / 'users.jsonl'}, line 32", 1)
        assert {row.key: row.value["ts"] for row in snap.table("users").items()} == {i: 40 + i for i in range(20)}
        assert list(done.sources.values()) == [(folder / "users.jsonl").stat().st_size]
        assert not engine.check().wrong


def damaged(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Check that damage of each kind is found, and nothing else."""
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    users.view("names", key="name", reduce={"n": ps.count(), "total": ps.sum("amount")})
    users.view("largest", key="name", reduce={"max": ps.max("amount"), "last": ps.last("amount")})
    users.view("letters", reduce=ps.sum())(letters)
    with ps.open(app, folder / "store") as engine:
        engine.put_many("users", [{"id": i, "name": f"n{i % 5}", "amount": i, "ts": i} for i in range(60)])
        engine.put_many("users", [{"id": i, "name": "n0", "amount": i, "ts": 100} for i in range(1, 9)])
        engine.delete("users", 59, ts=200)
        found = verify(app, folder / "store", spark=InProcess())
        assert (found.wrong, found.documents, found.rows) == ([], 59, 11)
        damage.add_to_lane(engine, "names", "n1", 2, 7)
        damage.tell(engine, "largest", [(1000, "ghost", {"max": 1, "last": 1})], [])
        damage.yield_otherwise(engine, "letters", lambda pairs: [[(b"\x05x", 1)], *pairs[1:]])
        found = verify(app, folder / "store", spark=InProcess())
    assert found.told == {"letters": 2}  # the first of each segment
    assert [(one.view, one.group) for one in found.wrong] == [("largest", "ghost"), ("names", "n1")]


def letters(user: dict[str, Any]) -> Iterator[Any]:
    """Yield a group of one letter."""
    yield user["name"][0], user["amount"]


def rich(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Check every merge and accumulator, and function views with their held documents."""
    agreed(monkeypatch, folder, RICH.app(), [rich_record(choose, n) for choose in [Random(3)] for n in range(1, 160)])


def trees(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Check every tree."""
    agreed(monkeypatch, folder, TREES.app(), [tree_record(choose, n) for choose in [Random(4)] for n in range(1, 160)])


HISTORIES = [rich, trees, unordered, files, damaged]

BUGS = [
    (
        rich,
        Bug(
            "of equal ts the first wins",
            "spark.backfill_job.bucket_documents.write_bucket",
            "np.lexsort((records.minor,",
            "np.lexsort((-records.minor,",
        ),
    ),
    (
        unordered,
        Bug(
            "of equal ts the lesser bytes win",
            "spark.backfill_job.bucket_documents._by_bytes",
            "out[again] = placed",
            "out[again] = placed[::-1]",
        ),
    ),
    (
        rich,
        Bug(
            "a deletion is passed over",
            "spark.backfill_job.bucket_documents._Records.batch",
            "out.deletes[place] = deletion",
            "pass",
        ),
    ),
    (
        rich,
        Bug(
            "tombstones are counted as documents",
            "spark.backfill_job.result_loader.ResultLoader._bucket",
            "index.add(segment, base, table.has_ts)",
            "index.add(segment, base, not table.has_ts)",
        ),
    ),
    (
        rich,
        Bug(
            "an emission comes twice",
            "spark.backfill_job.range_tasks.RangeReduceTask._reduced",
            "joined_shares(node, shares)",
            "joined_shares(node, [*shares, *shares[:1]])",
        ),
    ),
    (
        trees,
        Bug(
            "an emission comes twice in a tree",
            "spark.backfill_job.range_tasks.RangeReduceTask._reduced",
            "joined_shares(node, shares)",
            "joined_shares(node, [*shares, *shares[:1]])",
        ),
    ),
    (
        rich,
        Bug(
            "a share is lost",
            "spark.backfill_job.range_tasks.RangeReduceTask._reduced",
            "joined_shares(node, shares)",
            "joined_shares(node, shares[1:] or shares)",
        ),
    ),
    (
        rich,
        Bug(
            "a group at a boundary goes to both sides",
            "spark.backfill_job.contribution_blobs.ContributionShare.split",
            "bisect_right(bounds, stored_key(name))",
            "bisect_right(bounds, stored_key(name)) - (len(self._names) % 2 and stored_key(name) in bounds)",
        ),
    ),
    (
        rich,
        Bug(
            "a bucket is off by one",
            "spark.backfill_job.records_by_key._Sorting._sort",
            "np.uint64(64 - self._plan.bits))",
            "np.uint64(64 - self._plan.bits)) ^ np.uint64(self.size > 0)",
        ),
    ),
    (
        rich,
        Bug(
            "what functions yielded lies beside its segment",
            "spark.backfill_job.result_loader.ResultLoader._bucket",
            "emissions_db(self._views[name]), record_key(base)",
            "emissions_db(self._views[name]), record_key(base + 1)",
        ),
    ),
    (
        rich,
        Bug(
            "the index is off by one", "spark.backfill_job.result_loader._Index.add", "(base + at)", "(base + at[::-1])"
        ),
    ),
    (
        trees,
        Bug(
            "nodes are not written",
            "spark.backfill_job.range_tasks.RangeReduceTask._reduced",
            "nodes_db(node.number), *dbs",
            "*dbs",
        ),
    ),
    (
        trees,
        Bug(
            "ranks of contributions are lost",
            "spark.backfill_job.contribution_blobs.joined_shares",
            "items.rank)",
            "None if items.rank is None else items.rank * 0)",
        ),
    ),
    (files, Bug("places begin at one", "spark.task_messages.Origin.where", "place + 1", "place + 2")),
    (
        files,
        Bug(
            "a part begins a line early",
            "spark.backfill_job.table_inputs._lines_of",
            "yield at, number, lines",
            "yield at, max(0, number - 1), lines",
        ),
    ),
    (
        files,
        Bug(
            "the last line of a part is lost",
            "spark.backfill_job.table_inputs._lines_of",
            '+ file.readline().count(b"\\n")',
            "+ 0 * len(file.readline())",
        ),
    ),
    (
        files,
        Bug(
            "what is rejected is lost",
            "spark.backfill_job.bucket_documents.write_bucket",
            "rejects += [pack(list(own)) for own in records.refused]",
            "pass",
        ),
    ),
    (
        damaged,
        Bug(
            "versions that lost contribute",
            "spark.verify_job.document_blocks.document_blocks",
            "at[log.newest(segment.k0, segment.k1, segment.base + at)]",
            "at",
        ),
    ),
    (
        damaged,
        Bug(
            "deleted documents contribute",
            "spark.verify_job.document_blocks.DocumentBlock.of",
            "if not unwrap(line).absent",
            "",
        ),
    ),
    (
        damaged,
        Bug(
            "a group without documents is right",
            "spark.verify_job.verify_driver.CompareTask._compared",
            "len(stored) == len(expected)",
            "len(stored) >= len(expected)",
        ),
    ),
    (
        damaged,
        Bug(
            "results are not compared",
            "spark.verify_job.verify_driver.CompareTask._compared",
            "same_result(stored[0], expected[0])",
            "True",
        ),
    ),
    (
        damaged,
        Bug(
            "what differs from its tally is not asked about",
            "spark.verify_job.verify_driver._compare",
            "if again:",
            "if not again:",
        ),
    ),
    (
        damaged,
        Bug(
            "what is remembered is passed over",
            "spark.verify_job.remap_task._DecodedEmissions.otherwise",
            "return out",
            "return set()",
        ),
    ),
    (
        damaged,
        Bug(
            "what is tallied is lost",
            "spark.verify_job.group_facts.Facts.blobs",
            "() if counting is None else counting.tallies()",
            "()",
        ),
    ),
    (
        damaged,
        Bug(
            "the groups asked about are others",
            "spark.verify_job.group_facts.Facts.add",
            "group in self.wanted",
            "group not in self.wanted",
        ),
    ),
]


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.usefixtures("small")
def test_without_a_bug_they_agree(
    history: Callable[[pytest.MonkeyPatch, Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    history(monkeypatch, tmp_path)


@pytest.mark.parametrize(("history", "bug"), [pytest.param(*own, id=own[1].name) for own in BUGS])
@pytest.mark.usefixtures("small")
def test_a_planted_bug_is_found(
    history: Callable[[pytest.MonkeyPatch, Path], None], bug: Bug, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - any error shows the bug
        history(monkeypatch, tmp_path)
