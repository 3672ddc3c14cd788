"""Rejected records: the transaction of their batch stores each with its source, place, reason and bytes.

Users retry or drop them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import unpack
from penstock.engine import Engine, post, writer
from penstock.gateway import ReceivedRecord, RejectedRecord, TableBatch, keep_rejected
from penstock.gateway.intake import received_records as received
from penstock.spout import SpoutBatch, open_file
from tests.core.crash.test_crash_interrupted import interrupted

STAMPED, PLAIN, BROKER, PATCHED = "stamped", "plain", "broker", "patched"


def app() -> ps.App:
    made = ps.App("records")
    tables = [made.table(STAMPED, key="id", ts="ts"), made.table(PLAIN, key="id")]
    tables += [made.table(BROKER, key="id", ts="@kafka"), made.table(PATCHED, key="id", ts="ts", merge="patch")]
    for table in tables:
        table.view(f"{table.name}_names", key="name", reduce=ps.count())
    return made


@pytest.fixture
def engine(place: Path | None) -> Any:
    with ps.open(app(), place) as opened:
        yield opened


def plant(engine: ps.Engine, table: str, *docs: Any, ts: Any = None, deletes: tuple[Any, ...] = ()) -> list[str]:
    """Put acceptable records into quarantine, as if an older version with narrower limits had rejected them."""
    core = engine.store.core  # no public call puts such a record there
    received = [ReceivedRecord.of(doc, ts) for doc in docs] + [ReceivedRecord.of_key(key, ts) for key in deletes]
    first = core.state.quarantined
    core.ready()

    def change(writer: Any, writes: Any) -> None:
        tails = {name: node.log.mark.tail for name, node in core.tables.items()}
        rejects = [
            RejectedRecord(table, "planted", None, f"record {i}", "it is refused", own)
            for i, own in enumerate(received)
        ]
        keep_rejected(rejects, core.state.quarantined, tails, writes)

    core.amend(change)
    return [f"r{first + i}" for i in range(len(received))]


def entries(engine: ps.Engine, **asked: Any) -> list[ps.Quarantined]:
    return list(engine.quarantine(**asked))


def names(engine: ps.Engine, table: str) -> dict[Any, int]:
    with engine.snapshot() as snap:
        return dict(snap.view(f"{table}_names").items())


# -- what is kept


def test_a_record_is_kept_with_its_source_place_and_reason(engine: ps.Engine) -> None:
    before = engine.digest()
    engine.put(STAMPED, b"no json")
    engine.put_many(STAMPED, [b'{"id": 1, "ts": 1}', b"", b'{"name": "Sue"}', b"[1]", b'{"id": 2, "ts": "x"}'])
    engine.delete(STAMPED, {})
    with engine.batch() as batch:
        batch.put(PLAIN, {"id": 1j})
        batch.put(PLAIN, {"id": [{}]})
    engine.ingest([ps.Record(PLAIN, None, {"n": i}, offset=40 + i) for i in range(2)], "kafka:a/0", 42)
    found = [(e.table, e.source, e.offset, e.place, e.data) for e in entries(engine)]
    assert found == [
        (STAMPED, "put", None, "document 1", b"no json"),
        (STAMPED, "put_many", None, "line 3", b'{"name": "Sue"}'),
        (STAMPED, "put_many", None, "line 4", b"[1]"),
        (STAMPED, "put_many", None, "line 5", b'{"id": 2, "ts": "x"}'),
        (STAMPED, "delete", None, "document 1", b"\x80"),
        (PLAIN, "batch", None, "record 1", b"{'id': 1j} (dict)"),
        (PLAIN, "batch", None, "record 2", b"\x81\xa2id\x91\x80"),
        (PLAIN, "kafka:a/0", 40, "record 1", b"\x81\xa1n\x00"),
        (PLAIN, "kafka:a/0", 41, "record 2", b"\x81\xa1n\x01"),
    ]
    reasons = [entry.reason for entry in entries(engine)]
    assert all(reasons)
    assert "no JSON object" in reasons[0]
    assert "'id'" in reasons[1]
    assert [e.id for e in entries(engine)] == [f"r{i}" for i in range(9)]
    assert entries(engine, ids="r1")[0].document == {"name": "Sue"}
    assert engine.status()["tables"][STAMPED]["quarantined"] == 5
    engine.delete(STAMPED, 1)
    assert entries(engine, ids="r1")[0].key is None
    assert engine.digest() != before


def test_a_rejection_is_no_content(engine: ps.Engine) -> None:
    before = engine.digest()
    with engine.snapshot() as snap:
        position = snap.position
    assert str(engine.put_many(STAMPED, [b"no", {"ts": 1}])).startswith("2 rejected")
    assert engine.digest() == before
    with engine.snapshot() as snap:
        assert snap.position == position


def batches(spout: Any) -> Iterator[SpoutBatch]:
    while (batch := spout.next_batch(100)) is not None:
        yield batch


def test_a_file_is_named_with_the_line(tmp_path: Path, place: Path | None) -> None:
    lines = tmp_path / "users.jsonl"
    lines.write_text('{"id": 1, "name": "Sue"}\n\nnope\n{"id": 2}\n{"name": "Joe"}\n')
    table = tmp_path / "more.csv"
    table.write_text("id,name\n1,Sue\n2,Joe,3\n3,Sam\n")
    with ps.open(app(), place) as engine:
        for path in (lines, table):
            spout = open_file(str(path), PLAIN)
            list(engine.load(PLAIN, batches(spout)))
            spout.close()
        found = entries(engine)
        assert [(Path(str(e.place).split(",")[0]).name, str(e.place).split(", ")[1]) for e in found] == [
            ("users.jsonl", "line 3"),
            ("users.jsonl", "line 5"),
            ("more.csv", "line 3"),
        ]
        assert [e.data for e in found] == [b"nope", b'{"name": "Joe"}', b"2,Joe,3"]
        assert all("file:" in str(e.source) or str(tmp_path) in str(e.source) for e in found), found[0].source


def test_a_long_record_is_kept_whole(engine: ps.Engine) -> None:
    long = b'{"id": 1, "text": "' + b"x" * (16 << 20) + b'"}'
    engine.put(PLAIN, long)
    engine.put(PLAIN, {"id": 2, "text": "x" * (17 << 20)})
    engine.put_many(PLAIN, [b'{"id": 3}', long, b'{"id": 4}'])
    first, second, third = entries(engine)
    assert (first.data, first.size) == (third.data, third.size) == (long, len(long))
    assert second.data is not None
    assert unpack(second.data) == {"id": 2, "text": "x" * (17 << 20)}
    left = engine.retry()
    assert (left.left, {reason.split()[0] for reason in left.why[0].reason.split(",")[:1]}) == (3, {"it"})
    assert len(entries(engine)) == 3


def test_a_record_too_long_for_quarantine_is_refused_to_the_caller(
    engine: ps.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine acknowledges nothing of its batch, so the caller still has the record."""
    monkeypatch.setattr(received, "MOST_RECEIVED", 20 << 20)
    long = b'{"id": 1, "text": "' + b"x" * (20 << 20) + b'"}'
    before = engine.status()["position"]
    for call in (
        lambda: engine.put(PLAIN, long),
        lambda: engine.put(PLAIN, {"id": 1, "text": "x" * (20 << 20)}),
        lambda: engine.put_many(PLAIN, [long]),
        lambda: engine.ingest([ps.Record(PLAIN, None, long)], source="s", resume=1),
    ):
        with pytest.raises(ps.PenstockError, match=r"too large, also for quarantine.*nothing of its batch was put"):
            call()
    assert engine.status()["position"] == before
    assert not entries(engine)
    assert not engine.status()["sources"]


def test_what_was_handed_over_is_kept_as_here(tmp_path: Path) -> None:
    def work(to: Any) -> None:
        to.put(STAMPED, b"\xff")
        to.put_many(STAMPED, [{"id": 1}, {"id": {}, "ts": 1}, {"id": 1j, "ts": 1}, b"no"])
        to.delete(STAMPED, {})
        post(to, [ps.Record(PLAIN, None, {"a": 1}), ps.Record(PLAIN, None, {"id": 7})])
        to.ingest([ps.Record(PLAIN, None, {"n": 1}, offset=7)], "s", 8)
        refused = SpoutBatch(TableBatch([b"x"]), "f", 0, 1, unit="f, line")
        for _ in to.load(PLAIN, [refused]):
            pass

    with ps.open(app(), tmp_path / "there") as engine, writer(tmp_path / "here", app()) as local:
        work(local)
        assert isinstance(local, Engine)
        with writer(tmp_path / "there", app()) as client:
            assert client.holder is not None
            work(client)
            kept = [(e.source, e.offset, e.place, e.reason, e.data) for e in entries(local)]
            assert [(e.source, e.offset, e.place, e.reason, e.data) for e in entries(engine)] == kept
            assert len(kept) == 9


def test_a_strict_batch_leaves_nothing(engine: ps.Engine) -> None:
    with pytest.raises(ps.BatchRejected):
        engine.put_many(PLAIN, [{"id": 1}, {"id": None}], strict=True)
    assert entries(engine) == []
    assert engine.status()["tables"][PLAIN]["quarantined"] == 0


def test_a_redelivery_is_kept_once(engine: ps.Engine) -> None:
    records = [ps.Record(PLAIN, None, {"n": 1}, offset=0), ps.Record(PLAIN, None, {"id": 1}, offset=1)]
    for _ in range(2):
        engine.ingest(records, "s", 2)
    assert [e.offset for e in entries(engine)] == [0]


def test_what_is_kept_survives_reopening_and_memory_in_doubt(store_path: Path) -> None:
    with ps.open(app(), store_path) as engine:
        engine.put_many(PLAIN, [b"a", b"b", {"id": 1}])
        kept = entries(engine)
        engine.store.core.forget()
        engine.put(PLAIN, b"c")
    with ps.open(app(), store_path) as engine:
        assert entries(engine)[:2] == kept
        engine.drop("r1")
        engine.put(PLAIN, b"d")
        assert [e.id for e in entries(engine)] == ["r0", "r2", "r3"]  # each number is used once
    with ps.open(app(), store_path, readonly=True) as reader:
        assert [e.id for e in entries(reader)] == ["r0", "r2", "r3"]
        with pytest.raises(ps.ReadOnly):
            reader.retry()


def test_rejections_under_group_durability(store_path: Path) -> None:
    with ps.open(app(), store_path, durability="group") as engine:
        for i in range(20):
            engine.put(PLAIN, {"id": i} if i % 2 else {"n": i})
        engine.flush()
        assert [e.document for e in entries(engine)] == [{"n": i} for i in range(0, 20, 2)]


# -- listing


def test_entries_are_filtered(engine: ps.Engine) -> None:
    engine.put_many(STAMPED, [b"1", b"2"])
    engine.put_many(PLAIN, [b"3", b"4"])
    assert [e.data for e in entries(engine, table=PLAIN)] == [b"3", b"4"]
    assert [e.data for e in entries(engine, kind="record", limit=3)] == [b"1", b"2", b"3"]
    assert entries(engine, kind=ps.QuarantineKind.DOCUMENT) == entries(engine, view="plain_names") == []
    assert [e.id for e in entries(engine, ids=["r3", "r0", "r77", "x", "rr"])] == ["r0", "r3"]
    with pytest.raises(ps.UnknownName, match="plain"):
        entries(engine, table="plane")
    with pytest.raises(ps.UnknownName):
        entries(engine, view="plane")
    with pytest.raises(ps.PenstockError, match="the kinds are 'record', 'document', 'group'"):
        engine.quarantine("records")


# -- retry


def test_a_record_is_retried_with_its_own_ts(engine: ps.Engine) -> None:
    engine.put_many(STAMPED, [{"id": 1, "name": "Sue", "ts": 5}, {"id": 2, "name": "Joe", "ts": 5}])
    docs = [{"id": 1, "name": "late", "ts": 4}, {"id": 2, "name": "Sam", "ts": 6}, {"id": 3, "name": "Mia", "ts": 1}]
    ids = plant(engine, STAMPED, *docs, {"id": 2, "name": "Sam", "ts": 6}, b'{"id": 4, "name": "Al", "ts": 1}')
    settled = engine.retry(ids)
    assert str(settled) == "3 applied, 1 equal, 1 late" or settled.applied + settled.equal == 4
    assert settled.late == 1
    assert names(engine, STAMPED) == {"Sue": 1, "Sam": 1, "Mia": 1, "Al": 1}
    assert entries(engine) == []
    assert engine.status()["tables"][STAMPED]["quarantined"] == 0
    assert engine.status()["tables"][STAMPED]["rejected"] == 0  # this version never counted these records


def test_a_deletion_and_a_patch_are_retried(engine: ps.Engine) -> None:
    engine.put(PATCHED, {"id": 1, "name": "Sue", "age": 3, "ts": 5})
    engine.put(PLAIN, {"id": 1, "name": "Sue"})
    plant(engine, PATCHED, {"id": 1, "name": "Joe", "age": 4, "ts": 4}, {"id": 1, "age": 9, "ts": 6})
    plant(engine, PLAIN, deletes=(1,))
    plant(engine, BROKER, {"id": 1, "name": "Sue"}, ts=3)
    assert engine.retry().left == 0
    with engine.snapshot() as snap:
        assert snap.table(PATCHED)[1] == {"id": 1, "name": "Sue", "age": 9, "ts": 6}
        assert 1 not in snap.table(PLAIN)
        assert snap.table(BROKER)[1] == {"id": 1, "name": "Sue"}
    assert str(engine.put(BROKER, {"id": 1, "name": "late"}, ts=2)) == "1 late"


def test_the_kind_of_ts_is_that_of_the_first_that_is_retried(store_path: Path) -> None:
    with ps.open(app(), store_path) as engine:
        plant(engine, STAMPED, {"id": 1, "ts": "2024-01-01T00:00:00Z"})
        assert engine.retry().applied == 1
    with ps.open(app(), store_path) as engine:
        assert str(engine.put(STAMPED, {"id": 2, "ts": 7})).startswith("1 rejected")


def test_what_is_rejected_again_stays(engine: ps.Engine) -> None:
    engine.put_many(STAMPED, [b"no", {"ts": 1}, {"id": 1j}, {"id": 1, "ts": 1}])
    plant(engine, STAMPED, {"id": 2, "ts": 2})
    before = engine.status()["tables"][STAMPED]
    settled = engine.retry(kind="record")
    assert (settled.applied, settled.left, [left.id for left in settled.why]) == (1, 3, ["r0", "r1", "r2"])
    assert all(left.reason for left in settled.why)
    assert [e.id for e in entries(engine)] == ["r0", "r1", "r2"]
    after = engine.status()["tables"][STAMPED]
    assert (after["rejected"], after["quarantined"]) == (before["rejected"], 3)


def test_an_id_that_is_not_there_is_said(engine: ps.Engine) -> None:
    engine.put(PLAIN, b"no")
    for settled in (engine.retry(["r9", "d00"]), engine.drop("r9")):
        assert {left.reason for left in settled.why} == {"it is not in quarantine"}
    assert str(engine.retry(view="plain_names")) == "nothing of that is in quarantine"
    with pytest.raises(ps.PenstockError, match="give it ids"):
        engine.drop()


def test_as_many_as_are_wanted(engine: ps.Engine) -> None:
    engine.put_many(PLAIN, [b"x"] * 10)
    assert engine.drop(table=PLAIN, limit=4).dropped == 4
    assert [e.id for e in entries(engine)] == [f"r{i}" for i in range(4, 10)]


# -- many


def test_a_storm_is_kept_whole_and_told_in_part(place: Path | None) -> None:
    with ps.open(app(), place) as engine:
        for n in range(5):
            counts = engine.put_many(PLAIN, [b'{"n": %d}' % i for i in range(1_000)] + [{"id": n, "name": "good"}])
            assert str(counts).startswith("1 applied, 1,000 rejected")
        assert names(engine, PLAIN) == {"good": 5}
        assert engine.status()["tables"][PLAIN]["quarantined"] == sum(1 for _ in engine.quarantine()) == 5_000
        steps: list[int] = []
        settled = engine.retry(progress=lambda done, total: steps.append(done))
        assert (settled.left, len(settled.why), steps) == (5_000, 100, [1_000, 2_000, 3_000, 4_000, 5_000])
        assert engine.drop(table=PLAIN).dropped == 5_000
        assert engine.status()["tables"][PLAIN]["quarantined"] == 0


# -- crashes


def test_interrupted_at_any_moment_a_record_is_in_one_place() -> None:
    """Interrupt puts and retries with Ctrl-C. Each record is then in quarantine or in its table, never in both."""
    went_in = kept = 0
    for n in range(1, 10_000, 7):
        with ps.open(app(), None) as engine:
            engine.put(PLAIN, {"id": 9, "name": "there"})
            plant(engine, PLAIN, {"id": 1, "name": "planted"})

            def work(engine: ps.Engine = engine) -> None:
                engine.put_many(PLAIN, [b"no", {"id": 2}])
                engine.retry()

            ended = not interrupted(n, work)
            found = [e.data for e in engine.quarantine()]
            taken = names(engine, PLAIN).get("planted", 0)
            assert len(found) == (b"no" in found) + (not taken)
            went_in, kept = went_in + taken, kept + (not taken)
            engine.put(PLAIN, b"no")
            assert engine.retry().left == 1 + (b"no" in found)
            wanted: dict[Any, int] = {"there": 1, "planted": 1}
            assert names(engine, PLAIN) == (wanted | {None: 1} if b"no" in found else wanted)
        if ended:
            break
    assert ended
    assert went_in
    assert kept
