"""View rows in both forms, byte by byte. Any MessagePack reader can read the stored rows."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import Segment, StoreDamaged, encode_key, open_lmdb, seal, unseal
from penstock.cache.store.key_digests import DIGESTS
from penstock.mapreduce import (
    RowCodec,
    RowState,
    count,
    emissions_db,
    held_db,
    mean,
    rows_db,
    same_result,
    sum,
    variance,
)

LANE = st.integers(-(1 << 63), (1 << 63) - 1)


def _number(code: int, data: bytes) -> Any:
    assert code in (1, 2)
    return int(data) if code == 1 else Decimal(data.decode())


def _read(payload: bytes) -> Any:
    """Return a payload as the `msgpack` package reads it."""
    return msgpack.unpackb(payload, ext_hook=_number, strict_map_key=True)


def _fixed(codec: RowCodec, rows: list[tuple[bytes, int, list[int]]]) -> list[tuple[bytes, bytes]]:
    keys = [key for key, _, _ in rows]
    n = np.array([m for _, m, _ in rows], np.int64)
    lanes = np.array([own for _, _, own in rows], np.int64).reshape(len(rows), codec.lanes).T
    return codec.fixed_rows(keys, [crc32c(key) for key in keys], n, lanes)


def test_form_a_byte_by_byte() -> None:
    codec = RowCodec([sum("a")], None)
    key = encode_key("Joe")
    [(stored, row)] = _fixed(codec, [(key, 3, [2, -5])])
    assert stored == key
    payload = bytes.fromhex("93d30000000000000003d30000000000000002d3fffffffffffffffb")
    assert row == payload + crc32c(payload, crc32c(key)).to_bytes(4, "big")
    assert _read(payload) == [3, 2, -5]


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=9), LANE, st.lists(LANE, min_size=4, max_size=4)),
        min_size=1,
        max_size=8,
    )
)
def test_a_few_rows_of_form_a_are_those_of_many(rows: list[tuple[bytes, int, list[int]]]) -> None:
    codec = RowCodec([mean("a")], None)
    own = [(key, n, lanes[: codec.lanes]) for key, n, lanes in rows]
    assert _fixed(codec, own) == _fixed(codec, own * 9)[: len(own)]


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=9), LANE, st.lists(LANE, min_size=17, max_size=17)), max_size=12)
)
def test_form_a_of_any_width_is_read_back(rows: list[tuple[bytes, int, list[int]]]) -> None:
    for codec in (
        RowCodec([count()], None),
        RowCodec([mean("a")], None),
        RowCodec([ps.histogram(list(range(16)), "a")], None),
    ):
        cut = [(key, n, lanes[: codec.lanes]) for key, n, lanes in rows]
        for (key, n, lanes), (stored, row) in zip(cut, _fixed(codec, cut), strict=True):
            assert stored == key
            assert codec.decode(key, row, "view") == RowState(n, lanes)
            assert _read(unseal(key, row, "view")) == [n, *lanes]


SPILLS = st.none() | st.lists(
    st.none() | st.lists(st.integers(-(1 << 90), 1 << 90), max_size=4), min_size=2, max_size=2
)


@given(
    LANE,
    st.lists(LANE, min_size=5, max_size=5),
    SPILLS,
    st.none() | st.just(["ValueError: no", {"a": Decimal("1.50")}]),
    st.none() | st.binary(min_size=401, max_size=405),
)
def test_form_b_is_read_back(n: int, lanes: list[int], spills: Any, held: Any, whole: bytes | None) -> None:
    codec = RowCodec([mean("a"), variance("a")], ("m", "v"))
    key = b"\x05key"
    row = codec.sealed(key, RowState(n, lanes, spills, held, whole))
    got = codec.decode(key, row, "view")
    some = spills if spills is not None and any(s is not None for s in spills) else None
    assert got == RowState(n, lanes, some, held, whole)
    expected = {"n": n, "l": lanes, "s": some, "h": held, "k": whole}
    assert _read(unseal(key, row, "view")) == {k: v for k, v in expected.items() if v is not None}


def test_damage_is_found() -> None:
    codec = RowCodec([count()], None)
    for row in (_fixed(codec, [(b"k", 3, [])])[0][1], codec.sealed(b"k", RowState(3, []))):
        for bit in range(8 * len(row)):
            flipped = bytearray(row)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(StoreDamaged):
                codec.decode(b"k", bytes(flipped), "view")
        with pytest.raises(StoreDamaged):
            codec.decode(b"l", row, "view")


def test_reducers_that_read_one_cell_share_it() -> None:
    codec = RowCodec([sum("a"), mean("a"), count()], ("s", "m", "n"))
    assert codec.lanes == 2
    assert codec.result(RowState(4, [3, 12])) == {"s": 12, "m": 4.0, "n": 4}
    assert codec.result(RowState(4, [3, 12], None, ["E: no", "last"])) == "last"


def test_results_that_differ_in_type_or_digits_differ() -> None:
    assert not same_result(1, 1.0)
    assert not same_result(1, True)
    assert not same_result(Decimal("1.0"), Decimal("1.00"))
    assert same_result(float("nan"), float("nan"))
    assert same_result({"a": 1, "b": None}, {"b": None, "a": 1})


# The stored rows, read by another reader.


class _Longest:
    """A user's invertible reducer: the total length of texts."""

    zero = 0

    def lift(self, value: Any) -> int:
        if not isinstance(value, str):
            raise TypeError("no text")
        return len(value)

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


def _app() -> ps.App:
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="ts")
    patched = app.table("patched", key="id", merge="patch", ts="ts")
    plain = app.table("plain", key="id")
    broker = app.table("broker", key="id", ts="@kafka")
    for table in (orders, patched, plain, broker):
        table.view(
            f"{table.name}_by", key="city", reduce={"n": ps.count(), "t": ps.sum("amount"), "v": ps.variance("amount")}
        )
    orders.view("lengths", key="city", value="note", reduce=ps.group(_Longest()))

    @orders.view(reduce=ps.sum())
    def words(order: Any) -> Iterator[Any]:
        for word in order["note"].split():
            yield word, order["amount"]

    by = app.lookup("words")

    @by.view(reduce=ps.count())
    def letters(row: Any) -> Iterator[Any]:
        if row.value == 13:
            raise ValueError("unlucky")
        yield row.key[0]

    by.view("values", key="key", reduce=ps.sum("value"))
    return app


def _documents() -> list[dict[str, Any]]:
    amounts: list[Any] = [1, 1 << 80, Decimal("2.50"), 0.1, float("inf"), None, "wrong", 13]
    return [
        {"id": i, "ts": i, "city": "x" * (500 if i == 2 else 1), "amount": amount, "note": 7 if i == 3 else f"w{i} w"}
        for i, amount in enumerate(amounts)
    ]


def _fill(path: Path) -> dict[str, int]:
    with ps.open(_app(), path) as engine:
        for table in ("orders", "patched", "plain", "broker"):
            for doc in _documents():
                engine.put(table, doc, ts=doc["ts"] if table == "broker" else None)
            engine.delete(table, 1, ts=None if table == "plain" else 99)
        engine.ingest([ps.Record("plain", 1, {"id": 1}, offset=4)], source="file:a", resume=5)
        numbers = {name: node.number for name, node in engine.store.core.views.items()}
        return numbers | {name: node.number for name, node in engine.store.core.tables.items()}


def test_every_kind_of_row_is_messagepack(tmp_path: Path) -> None:
    numbers = _fill(tmp_path / "state")
    store = open_lmdb(tmp_path / "state", readonly=True)
    kinds: dict[str, set[str]] = {}
    with store.read() as snap:

        def rows(db: str, kind: str) -> Iterator[tuple[bytes, Any]]:
            for key, row in snap.scan(db):
                assert row == seal(key, row[:-4])
                found = _read(row[:-4])
                kinds.setdefault(kind, set()).add(type(found).__name__)
                yield key, found

        meta = dict(rows("meta", "meta"))
        assert set(meta) == {
            b"catalog",
            b"state",
            DIGESTS,
            *(b"log:%d" % numbers[t] for t in ("orders", "patched", "plain", "broker")),
        }
        assert meta[b"state"]["sources"] == {"file:a": 5}
        assert {name: entry[0] for name, entry in meta[b"catalog"]["entries"].items()} == numbers
        assert meta[b"log:%d" % numbers["orders"]][0] == 9
        for name in ("orders_by", "patched_by", "plain_by", "broker_by", "words", "letters", "values", "lengths"):
            for _, found in rows(rows_db(numbers[name]), "rows"):
                assert (found["n"] if isinstance(found, dict) else found[0]) > 0
            for _, (whole, reason, trace, pairs) in rows(held_db(numbers[name]), "held"):
                assert isinstance(whole, bytes)
                assert isinstance(reason, str)
                assert isinstance(trace, str)
                assert all(len(pair) == 2 for pair in pairs)
        for name in ("words", "letters"):
            for _, (counts, whole, codes, _) in rows(emissions_db(numbers[name]), "told"):
                assert counts is None or len(counts) % 4 == 0
                assert len(codes) % 4 == 0
                assert all(isinstance(group, bytes) for group in whole)
        for table in ("orders", "patched", "plain", "broker"):
            for line in _lines(snap, numbers[table]):
                kinds.setdefault("lines", set()).add(f"{type(_read(line)).__name__} {line[0] & 0xF0:x}")
    store.close()
    assert kinds == {
        "meta": {"dict", "list"},
        "rows": {"dict", "list"},
        "held": {"list"},
        "told": {"list"},
        "lines": {"dict 80", "list 90"},
    }


def _lines(snap: Any, table: int) -> Iterator[bytes]:
    for key, value in snap.scan(f"log:{table}"):
        segment = Segment.parse(int.from_bytes(key, "big"), value, "log")
        yield from segment.lines(np.arange(len(segment)))
