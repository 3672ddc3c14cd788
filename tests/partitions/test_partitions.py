"""A store of several partitions, as users see it: it answers like a store of one partition, or raises clear errors."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import MemoryStore
from penstock.core.metadata.store_layout import NAME, WrongPartitions
from penstock.engine import Batch, PartitionedStore, Resume, open_on
from penstock.engine.partitioned_reading import PartitionedReading
from penstock.gateway import TableBatch
from penstock.spout import SourceMoved, SpoutBatch
from penstock.views import ProductionName

KINDS: tuple[ProductionName, ...] = ("strong", "weak", "auto")


class Wide:
    """Sum and sum of squares, as a user writes them."""

    zero = (0, 0)

    def lift(self, value: Any) -> Any:
        return [value, value * value]

    def merge(self, a: Any, b: Any) -> Any:
        return [a[0] + b[0], a[1] + b[1]]

    def unmerge(self, a: Any, b: Any) -> Any:
        return [a[0] - b[0], a[1] - b[1]]


def shop(production: ProductionName = "strong") -> ps.App:
    app = ps.App("shop")
    options: dict[str, Any] = {"production": production}
    users = app.table("users", key="id", ts="ts")
    plain = app.table("plain", key=("a", "b"))
    names = users.view(
        "names", key="name", reduce={"n": ps.count(), "sum": ps.sum("amount"), "avg": ps.mean("amount")}, **options
    )
    users.view(
        "cities",
        key="city",
        value="amount",
        reduce={"top": ps.max(), "kinds": ps.distinct(), "last": ps.last()},
        **options,
    )
    users.view("wide", key="city", value="ts", where=ps.field("ts") > 0, reduce=ps.group(Wide()), **options)
    users.view("index", key="city", value="amount", reduce=None, **options)
    names.view("sizes", key="value.n", reduce=ps.count())
    plain.view("pairs", key=("a", "c"), reduce=ps.count(), **options)

    @users.view(reduce={"n": ps.sum("n"), "most": ps.max("len")}, **options)
    def words(doc: Any) -> Any:
        for word in doc.get("words", ()):
            yield word, {"n": 1, "len": len(word)}

    @users.view(reduce=None, **options)
    def listed(doc: Any) -> Any:
        for word in doc.get("words", ()):
            yield word, doc["amount"]

    @words.view(reduce=ps.count())
    def lengths(row: Any) -> Any:
        yield len(row.key), row.value["n"]

    return app


def documents(choose: Random, n: int, now: int) -> list[dict[str, Any]]:
    return [
        {
            "id": choose.choice([choose.randrange(12), f"k{choose.randrange(12)}"]),
            "name": choose.choice("abcdef"),
            "city": choose.choice(["x", "y", None, 1, 2.5]),
            "amount": choose.choice([choose.randrange(20), choose.random(), None, 1 << 66]),
            "words": [choose.choice(["one", "three", "seven"]) for _ in range(choose.randrange(3))],
            "ts": now + choose.randrange(-2, 2),
        }
        for _ in range(n)
    ]


@given(choose=st.randoms(use_true_random=False), partitions=st.integers(1, 5), production=st.sampled_from(KINDS))
def test_any_history_leaves_what_a_store_in_one_piece_has(
    choose: Random, partitions: int, production: ProductionName
) -> None:
    with ps.open(shop(production), None, partitions=partitions) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        whole, _ = open_on(shop(production), MemoryStore(), seed=partitioned.store.layout.seed)
        for now in range(choose.randrange(1, 8)):
            docs = documents(choose, choose.randrange(1, 12), now)
            for engine in (partitioned, whole):
                counted = engine.put_many("users", docs)
            assert counted is not None
            if choose.random() < 0.5:
                key = choose.randrange(12)
                assert partitioned.delete("users", key) == whole.delete("users", key)
            if choose.random() < 0.5:
                rows = [
                    {"a": choose.randrange(3), "b": choose.randrange(3), "c": choose.randrange(2)} for _ in range(3)
                ]
                for engine in (partitioned, whole):
                    with engine.batch() as batch:
                        batch.put_many("plain", rows)
                        batch.put("users", {"id": 3, "name": "z", "ts": now})
                        batch.delete("plain", (0, 0))
        assert partitioned.digest() == whole.digest()
        with partitioned.snapshot(consistency="position") as own, whole.snapshot() as other:
            for view in shop().views():
                assert list(own.view(view.name).items()) == list(other.view(view.name).items())


def test_counts_and_rejections_are_those_of_a_store_in_one_piece() -> None:
    lines = [b'{"id": 1, "ts": 1}', b"", b"{", b'{"ts": 1}', b'{"id": 2, "ts": 1}', b'{"id": 1, "ts": 0}', b'{"id": 9}']
    with ps.open(shop(), None, partitions=3) as partitioned, ps.open(shop(), None) as whole:
        one, other = partitioned.put_many("users", lines), whole.put_many("users", lines)
        assert isinstance(one, ps.Counts)
        assert isinstance(other, ps.Counts)
        assert (one.applied, one.late, one.rejected) == (other.applied, other.late, other.rejected) == (2, 1, 3)
        assert sorted(map(str, one.rejections)) == sorted(map(str, other.rejections))
        quarantined = [(entry.place, entry.reason) for entry in partitioned.quarantine("record")]
        assert sorted(quarantined) == sorted((entry.place, entry.reason) for entry in whole.quarantine("record"))


def test_the_kind_of_a_ts_is_one_for_all_partitions() -> None:
    with ps.open(shop(), None, partitions=4) as partitioned:
        counts = partitioned.put_many("users", [{"id": i, "ts": "2024-01-01T00:00:00Z" if i else 1} for i in range(20)])
        assert isinstance(counts, ps.Counts)
        assert (counts.applied, counts.rejected) == (1, 19)


@pytest.mark.parametrize("wrong", range(12))
def test_a_strict_batch_is_in_at_all_partitions_or_at_none(wrong: int) -> None:
    docs = [{"id": i, "ts": "2024-01-01T00:00:00Z" if i == wrong else 1} for i in range(1, 12)]
    with ps.open(shop(), None, partitions=4) as partitioned:
        partitioned.put("users", {"id": 99, "ts": 1})
        with partitioned.snapshot() as snap:
            before = snap.position
        if wrong:
            with pytest.raises(ps.BatchRejected, match=f"document {wrong}"):
                partitioned.put_many("users", docs, strict=True)
        with partitioned.snapshot() as snap:
            assert snap.position == before
            assert len(list(snap.table("users").items())) == 1


def test_a_source_goes_on_from_the_least_partition(tmp_path: Path) -> None:
    records = [ps.Record("users", i, {"id": i, "name": "a", "ts": 1}, offset=i) for i in range(10)]
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as partitioned:
        assert partitioned.ingest(records[:6], "log", 6).applied == 6
        counts = partitioned.ingest(records[3:], "log", 10)
        assert (counts.applied, counts.late) == (4, 3)
        with partitioned.snapshot() as snap:
            assert snap.sources == {"log": 10}
            assert snap.view("names")["a"]["n"] == 10
    with ps.open(shop(), tmp_path / "s", processes=False) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        remembered = partitioned.remembered("log")
        assert remembered is not None
        assert remembered.offset == 10
        ahead = SpoutBatch(TableBatch([b'{"id": 1, "ts": 2}']), "log", 11, 12)
        with pytest.raises(SourceMoved):
            list(partitioned.load("users", [ahead]))


def _lines(first: int, last: int) -> list[bytes]:
    return [b'{"id": %d, "name": "a", "ts": 1}' % i for i in range(first, last)]


def _file(first: int, last: int) -> SpoutBatch:
    """Return lines of a file as its spout gives them, with the offset of the next byte."""
    start = len(b"".join(line + b"\n" for line in _lines(0, first)))
    lines = _lines(first, last)
    resume = start + sum(len(line) + 1 for line in lines)
    return SpoutBatch(TableBatch(lines), "file", start, resume, raw=True, first=first + 1)


@pytest.mark.parametrize("until", [10, 25, 40])
def test_a_file_goes_on_where_each_partition_stands(tmp_path: Path, until: int) -> None:
    """One partition has a batch, and the other has not: both get it again, cut at the same place or at another."""
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        list(partitioned.load("users", [_file(0, 5)]))
        cut = _file(5, 25)
        ahead = partitioned.store.writing.routed({"users": [Batch(cut.records)]})[1]
        partitioned.store.handles[1].take(ahead, {"file": Resume(cut.resume)}, 99, {"users": "number"})
        n = sum(part.size for own in ahead.values() for part in own)
    with ps.open(shop(), tmp_path / "s", processes=False) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        remembered = partitioned.remembered("file")
        assert remembered is not None
        assert remembered.offset == _file(5, 25).start
        given = [counts for _, counts in partitioned.load("users", [_file(5, until), _file(until, 50)])]
        assert sum(counts.late for counts in given) == n
        assert sum(counts.applied for counts in given) == 45 - n
        with partitioned.snapshot() as snap:
            assert snap.view("names")["a"]["n"] == 50
            assert snap.sources == {"file": _file(0, 50).resume}
        with pytest.raises(SourceMoved):
            list(partitioned.load("users", [_file(60, 70)]))


def test_a_store_says_how_many_partitions_it_has(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "two", partitions=2, processes=False):
        pass
    with ps.open(shop(), tmp_path / "one"):
        pass
    with pytest.raises(WrongPartitions, match=r"has 2 partitions, .* penstock repartition .* --to 3"):
        ps.open(shop(), tmp_path / "two", partitions=3)
    with pytest.raises(WrongPartitions, match="has 1 partition,"):
        ps.open(shop(), tmp_path / "one", partitions=2)
    with pytest.raises(WrongPartitions):
        ps.open(shop(), tmp_path / "two", partitions=3, readonly=True)
    with pytest.raises(ps.DefinitionError, match="from 1 to"):
        ps.open(shop(), None, partitions=0)
    (tmp_path / "two" / NAME).write_text("{")
    with pytest.raises(ps.StoreDamaged, match="partitions"):
        ps.open(shop(), tmp_path / "two")


def test_what_a_store_in_several_pieces_can_not_do_it_says() -> None:
    with ps.open(shop(), None, partitions=2) as partitioned:
        with pytest.raises(ps.PenstockError, match="in memory has no file"):
            partitioned.copy("there")
        with pytest.raises(ps.DefinitionError, match="'eventual' or 'position'"):
            partitioned.snapshot("soon")  # type: ignore[call-arg]


def test_two_stores_do_not_share_a_folder(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False), pytest.raises(ps.StoreInUse):
        ps.open(shop(), tmp_path / "s")


@pytest.mark.parametrize("production", KINDS)
def test_processes_do_the_work_and_are_followed(tmp_path: Path, production: ProductionName) -> None:
    app = shop(production)
    with ps.open(app, None) as whole, ps.open(app, tmp_path / "s", partitions=2) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        choose = Random(1)
        for now in range(6):
            docs = documents(choose, 40, now)
            partitioned.put_many("users", docs)
            whole.put_many("users", docs)
            if now == 2:
                pid = partitioned.store.handles[0].pid  # type: ignore[attr-defined]
                os.kill(pid, signal.SIGKILL)
        with partitioned.snapshot(consistency="position") as own, whole.snapshot() as other:
            for view in shop().views():
                assert list(own.view(view.name).items()) == list(other.view(view.name).items())
        assert [part["epoch"] for part in partitioned.status()["partitions"]] == [2, 1]
        assert all(handle.standing().pending == 0 for handle in partitioned.store.handles)
    with ps.open(app, tmp_path / "s", readonly=True) as reader, reader.snapshot() as snap:
        assert snap.view("names")["a"]["n"]


# -- digests


def document(i: int) -> dict[str, Any]:
    return {"id": i, "name": "abcdef"[i % 6], "city": i % 5, "amount": i, "words": ["one", "seven"][i % 3 :], "ts": 1}


def test_a_digest_waits_until_all_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = [document(i) for i in range(40)]
    with ps.open(shop(), None) as whole, ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as partitioned:
        whole.put_many("users", docs)
        with monkeypatch.context() as still:
            still.setattr(partitioned.store, "push", lambda: None)  # productions wait
            partitioned.put_many("users", docs)
        with ps.open(shop(), tmp_path / "s", readonly=True) as reading:
            monkeypatch.setattr(PartitionedReading, "looks", 2)
            with pytest.raises(ps.PenstockError, match="have not taken yet what they owe each other"):
                reading.digest()
            assert partitioned.digest() == whole.digest()
            assert reading.digest() == whole.digest()


def test_a_reader_takes_no_digest_of_states_that_never_were_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as partitioned:
        partitioned.put_many("users", [document(i) for i in range(40)])
        partitioned.settle()
        with ps.open(shop(), tmp_path / "s", readonly=True) as reading, ps.open(shop(), None) as whole:
            made, real = iter(range(40, 43)), PartitionedReading.snapshot

            def spanned(self: Any) -> Any:
                overtaking = next(made, None)
                if overtaking is not None:
                    partitioned.put("users", document(overtaking))
                return real(self)

            monkeypatch.setattr(PartitionedReading, "snapshot", spanned)
            whole.put_many("users", [document(i) for i in range(43)])
            assert reading.digest() == whole.digest()


def test_a_digest_names_a_partition_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(production: Any) -> int:
        raise ps.PenstockError("it is damaged")

    with ps.open(shop(), None, partitions=2) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        handles: Any = partitioned.store.handles
        with monkeypatch.context() as still:
            still.setattr(
                handles[1], "receive", lambda production: handles[1]._unless_refused(0, lambda: refuse(production))
            )
            with pytest.raises(ps.PenstockError):
                partitioned.put_many("users", [document(i) for i in range(40)])
            with pytest.raises(ps.PenstockError, match="it is damaged; run penstock check --fix"):
                partitioned.digest()
