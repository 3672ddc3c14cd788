"""Batches of a spout have the effect of `put_many`, at any size, and each is applied exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.input import decode_ahead
from penstock.gateway import Deletion, TableBatch
from penstock.spout import FileSpout, ParquetSpout, SourceMoved, SpoutBatch, open_file
from tests.harness.worlds import SHOP

ODD = ["", "  ", "no", "[]", "{}", "{", '{"id": null, "ts": 1}', '{"id": 1, "ts": "soon"}', '{"id": "\u20ac", "ts": 2}']


def line(key: int, amount: Any, ts: int) -> str:
    return json.dumps({"id": key, "name": f"n{key % 3}", "city": "Bern", "amount": amount, "ts": ts})


texts = st.lists(
    st.one_of(
        st.builds(line, st.integers(0, 9), st.sampled_from([1, 0.5, None]), st.integers(0, 9)), st.sampled_from(ODD)
    ),
    max_size=30,
)


def feed(spout: FileSpout | ParquetSpout, limit: int, most: int) -> Iterator[SpoutBatch]:
    for _ in range(most):
        batch = spout.next_batch(limit)
        if batch is None:
            return
        yield batch


@given(lines=texts, end=st.sampled_from(["", "\n"]), limits=st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_a_file_in_any_pieces_is_the_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, limits: list[int]
) -> None:
    """Content, counts and rejections are those of `put_many`, although the file is reopened after every few batches."""
    path = tmp_path_factory.getbasetemp() / "pieces.jsonl"
    lines = [line(1, 1, 1), *lines, line(1, 1, 1)]
    path.write_text("\n".join(lines) + end, "utf-8")
    with ps.open(SHOP.app(), None) as whole, ps.open(SHOP.app(), None) as engine:
        expected = whole.put_many("users", path.read_bytes())
        counts = ps.Counts()
        for limit in islice(cycle(limits), 1_000):
            spout = open_file(str(path), "users")
            with engine.snapshot() as snap:
                spout.begin(snap.remembered)
            ended = spout.ended
            for _, part in engine.load("users", feed(spout, limit, 2)):
                counts += part
            spout.close()
            if ended:
                break
        else:
            raise AssertionError("it never ends")
        assert engine.digest() == whole.digest()
        assert (counts.records, counts.rejected) == (expected.records, expected.rejected)
        assert [r.where.removeprefix(f"{path}, ") for r in counts.rejections] == [r.where for r in expected.rejections]
        assert [r.reason for r in counts.rejections] == [r.reason for r in expected.rejections]


def batch(*keys: int, start: int, again: bool = False, note: bytes = b"") -> SpoutBatch:
    lines = [line(key, 1, start + i).encode() for i, key in enumerate(keys)]
    return SpoutBatch(TableBatch(lines), "s", start, start + len(keys), note, again, unit="s, line", first=start + 1)


def loaded(engine: ps.Engine, *batches: SpoutBatch) -> list[str]:
    return [str(counts) for _, counts in engine.load("users", batches)]


def test_a_batch_that_was_taken_is_a_redelivery() -> None:
    with ps.open(SHOP.app(), None) as engine:
        one, two = batch(1, 2, start=0, note=b"one"), batch(3, start=2, note=b"two")
        assert loaded(engine, one, two, one, two) == ["2 applied", "1 applied", "2 late", "1 late"]
        with engine.snapshot() as snap:
            remembered = snap.remembered("s")
            assert remembered is not None
            assert (remembered.offset, remembered.note, snap.position) == (3, b"two", 2)
            assert snap.remembered("t") is None


@pytest.mark.parametrize("start", [1, 3, 7])
def test_a_batch_that_does_not_follow_is_refused(start: int) -> None:
    with ps.open(SHOP.app(), None) as engine:
        loaded(engine, batch(1, 2, start=0))
        digest = engine.digest()
        with pytest.raises(SourceMoved, match=rf"s stands at 2 in the store and not at {start}: it was loaded"):
            loaded(engine, batch(3, 4, start=start))
        assert engine.digest() == digest


def test_a_source_begins_again_when_it_says_so() -> None:
    with ps.open(SHOP.app(), None) as engine:
        loaded(engine, batch(1, 2, 3, start=0, note=b"long"))
        assert loaded(engine, batch(1, start=0, again=True, note=b"short"), batch(2, start=1)) == ["1 equal", "1 equal"]
        with engine.snapshot() as snap:
            remembered = snap.remembered("s")
        assert remembered is not None
        assert (remembered.offset, remembered.note) == (2, b"short"), "a batch without a note leaves the one before it"


def test_the_note_survives(store_path: Path) -> None:
    with ps.open(SHOP.app(), store_path) as engine:
        loaded(engine, batch(1, start=0, note=b"\x00\xff"))
    with ps.open(SHOP.app(), store_path, readonly=True) as engine, engine.snapshot() as snap:
        remembered = snap.remembered("s")
        assert remembered is not None
        assert remembered.note == b"\x00\xff"


def test_a_line_that_is_too_long_is_refused_among_others() -> None:
    long = b'{"id": 9, "x": "' + b"x" * (16 << 20) + b'"}'
    records = TableBatch([line(1, 1, 1).encode(), long, line(2, 1, 1).encode()])
    with ps.open(SHOP.app(), None) as engine:
        (_, counts), *_ = engine.load("users", [SpoutBatch(records, unit="s, line")])
        assert (counts.applied, [r.where for r in counts.rejections]) == (2, ["s, line 2"])
        assert "more than 16777216" in counts.rejections[0].reason


def test_what_can_not_be_read_again_leaves_no_offset() -> None:
    with ps.open(SHOP.app(), None) as engine:
        assert loaded(engine, SpoutBatch(TableBatch([line(1, 1, 1).encode()]))) == ["1 applied"]
        with engine.snapshot() as snap:
            assert snap.sources == {}


def test_deletions_and_what_was_refused_go_in_too() -> None:
    records = TableBatch([line(1, 1, 1).encode(), line(2, 1, 1).encode()], {1: Deletion(1, 5)})
    made = SpoutBatch(records, "s", 0, 9, raw=False, unit="s, line", skips=[1, 2], refused={2: "it is odd"})
    with ps.open(SHOP.app(), None) as engine:
        (_, counts), *_ = engine.load("users", [made])
        assert (counts.applied, counts.rejected) == (3, 1)
        assert [str(r) for r in counts.rejections] == ["users, s, line 3: it is odd"]
        with engine.snapshot() as snap:
            assert [row.key for row in snap.table("users").items()] == [2]


@pytest.mark.parametrize("columns", [False, True])
def test_long_input_is_decoded_by_the_helper_unless_it_came_as_columns(
    columns: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handed: list[int] = []
    start, hand = decode_ahead.Helper.start, decode_ahead.Helper.hand

    def started(*plan: Any) -> decode_ahead.Helper:
        own = start(*plan)
        assert own is not None
        assert own.wait()
        return own

    def counted(self: decode_ahead.Helper, lines: list[bytes], *laid: Any) -> decode_ahead.DecodeTask | None:
        handed.append(len(lines))
        return hand(self, lines, *laid)

    monkeypatch.setattr(decode_ahead.Helper, "start", started)
    monkeypatch.setattr(decode_ahead.Helper, "hand", counted)
    monkeypatch.setattr(decode_ahead.os, "sched_getaffinity", lambda _: {0, 1})
    docs = [{"id": i, "name": f"n{i % 7}", "amount": i, "ts": 1} for i in range(8_000)]
    path = tmp_path / ("a.csv" if columns else "a.jsonl")
    rows = (",".join(map(str, doc.values())) for doc in docs)
    path.write_text("\n".join(["id,name,amount,ts", *rows, ""] if columns else map(json.dumps, docs)))
    with ps.open(FIELDS, None) as engine, ps.open(FIELDS, None) as other:
        spout = open_file(str(path), "users")
        total = sum((counts for _, counts in engine.load("users", feed(spout, 2_000, 9), True)), ps.Counts())
        spout.close()
        assert str(total) == "8,000 applied"
        assert handed[:2] == ([] if columns else [2_000, 2_000])
        other.put_many("users", docs)
        assert engine.digest() == other.digest()


FIELDS = ps.App("fields")
FIELDS.table("users", key="id", ts="ts").view("by_name", key="name", value="amount", reduce=ps.sum())
