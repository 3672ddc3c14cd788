"""Decode lines to columns: the typed path and the path through dicts agree on every line."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import PenstockError, encode_key, pack, received_document
from penstock.mapreduce import BAD, DecodedColumns, Decoder, FieldPlan, LaneKind, Spaces, key_lanes
from penstock.mapreduce.decode import decoder
from penstock.views import Key, reach

SEED = 11
LINE = b'{"id":1,"ts":5,"name":"Sue","a":{"city":"Oslo","zip":1},"amount":3,"paid":true}'


def _plan(key: str | tuple[str, ...] = "id", nested: bool = True) -> FieldPlan:
    table = ps.App("shop").table("t", key=key, ts="ts")
    views = [
        table.view("names", key="name", reduce=ps.sum("amount")),
        table.view("both", key=("name", "a.city"), reduce=ps.count("name"), where="paid"),
        table.view("big", key=(), reduce=ps.count(), where=(ps.field("amount") > 2) | (ps.field("name") == "Joe")),
    ]
    if nested:
        views.append(table.view("zips", key="a.zip", reduce=ps.mean("a.deep.er")))
    return FieldPlan.of(table.key, table.ts, views)


PLANS = [_plan(), _plan(nested=False), _plan(("name", "id")), _plan("a.zip")]


@pytest.fixture(autouse=True)
def small_blocks() -> Iterator[None]:
    """Use blocks of 3 lines, with a sample of 2. So a few lines make several blocks, and each takes the typed path."""
    before = decoder.BLOCK, decoder._SAMPLE, decoder._FEW
    decoder.BLOCK, decoder._SAMPLE, decoder._FEW = 3, 2, 0
    yield
    decoder.BLOCK, decoder._SAMPLE, decoder._FEW = before


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        return received_document(line)
    except (PenstockError, msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _shown(columns: DecodedColumns, spaces: Spaces, i: int) -> dict[str, Any]:
    """Return the values of one line in all columns, independent of the form of the columns."""
    ts = columns.ts
    out: dict[str, Any] = {"ts": None if ts is None else ts[i].item() if isinstance(ts, np.ndarray) else ts[i]}
    out["key"] = int(columns.k0[i]), 0 if columns.k1 is None else int(columns.k1[i])
    for key, codes in columns.codes.items():
        out[str(key)] = BAD if codes[i] == BAD else spaces.groups(key).whole(int(codes[i]))
    for path, column in columns.inputs.items():
        out[str(path)] = int(column.kinds()[i]), int(column.lane[i]), repr(column.objs.get(i))
    for where, kept in columns.where.items():
        out[str(where)] = bool(kept[i])
    return out


def _expected(plan: FieldPlan, doc: dict[str, Any]) -> dict[str, Any]:
    """Return the same values for one document alone."""
    spaces = Spaces()
    return _shown(Decoder(plan, spaces, SEED).of_dicts([doc]), spaces, 0)


def _check(
    plan: FieldPlan, lines: list[bytes], of: Decoder | None = None, spaces: Spaces | None = None
) -> DecodedColumns:
    spaces = spaces or Spaces()
    columns = (of or Decoder(plan, spaces, SEED)).columns(lines)
    assert columns.n == len(lines)
    for i, line in enumerate(lines):
        doc = _document(line)
        if doc is None:
            assert columns.bad[i].startswith("not a document"), (line, columns.bad)
            continue
        parts = [reach(doc, path) for path in plan.key.paths]
        refused = key_lanes([parts[0] if plan.key.single else tuple(parts)], SEED)[1]
        if refused or all(part is None for part in parts):
            assert columns.bad[i].startswith("no key in field"), (line, columns.bad)
            continue
        assert i not in columns.bad, (line, columns.bad[i])
        got, expected = _shown(columns, spaces, i), _expected(plan, doc)
        if plan.ts is not None:
            ts = reach(doc, plan.ts)
            assert (type(got["ts"]), repr(got["ts"])) == (type(ts), repr(ts))
        assert repr(got) == repr(expected), line
    return columns


# Values of documents, as JSON text (some floats look like ints), or as text that is not JSON.
VALUES = st.sampled_from(
    ["1", "-1", "0", "1.0", "-0.0", "1.5", "1e2", "1E400", "9007199254740993", "9223372036854775807",
     "9223372036854775808", "-9223372036854775809", "1" * 40, "1" * 400, "null", "true", "false", '"Sue"', '""', '"1"',
     r'"é"', '"é"', r'"\ud800"', r'"\ud83d\ude00"', "[]", "[1,[2]]", "{}", '{"city":"Rom"}', '{"city":1,"zip":"x"}',
     '{"city":null}', '{"zip":2,"city":"Oslo","deep":{"er":4}}', '{"deep":{"er":0.5}}', '{"deep":[]}',
     "[" * 120 + "]" * 120, "NaN", "Infinity", "01", "+1", "'Sue'", "", "1 2", '"\t"']
)  # fmt: skip
FIELDS = st.sampled_from(["id", "ts", "name", "a", "amount", "paid", "other"])
OBJECTS = st.lists(st.tuples(FIELDS, VALUES), max_size=8).map(
    lambda fields: ("{" + ",".join(f'"{name}":{value}' for name, value in fields) + "}").encode()
)
CHANGED = st.lists(st.tuples(FIELDS, VALUES), min_size=1, max_size=2).map(
    lambda fields: LINE[:-1] + "".join(f',"{name}":{value}' for name, value in fields).encode() + b"}"
)
PACKED = st.dictionaries(
    FIELDS,
    st.sampled_from([1, "Sue", None, 1.5, 1 << 70, Decimal("1.5"), b"x", True, {"city": "Rom"}, [1], float("nan")]),
).map(pack)
NONE = st.sampled_from(
    [b"{", b"}", b"[1]", b"7", b'"x"', b"null", b"{}{}", b'{"id":1}{"id":2}', b'{"id":1},', b'{"x":[1', b"2]}", b" ",
     b'{"name":"\xff"}', b'{"other":"\xff","id":1}', b'{"other":"\xed\xa0\x80","id":1}', b'{"id":1,"id":2}',
     b"\x93\x01", b"\x81\xa1", b'{"id":1}\n', b'\t{"id":1}', b"\xef\xbb\xbf{}", LINE, LINE, LINE]
)  # fmt: skip
LINES = st.lists(OBJECTS | CHANGED | PACKED | NONE | st.just(LINE), min_size=1, max_size=10)


@given(st.sampled_from(PLANS), LINES)
@example(PLANS[0], [LINE, LINE, LINE, b'{"x":[1', b"2]}", LINE])
@example(PLANS[0], [LINE] * 4 + [b'{"id":2,"other":"\xff"}', LINE])
@example(PLANS[0], [LINE] * 4 + [b'{"id":2,"other":1e999}', LINE])
@example(PLANS[0], [LINE] * 4 + [b'{"id":2,"id":3,"name":"Sue","name":null}', LINE])
@example(PLANS[0], [LINE] * 4 + [LINE.replace(b"3", b"3.0"), LINE, LINE, LINE])
@example(PLANS[0], [LINE] * 4 + [LINE.replace(b'"id":1', b'"id":true'), LINE])
@example(PLANS[0], [LINE] * 4 + [LINE.replace(b'"id":1', b'"id":18446744073709551616'), LINE])
@example(PLANS[0], [LINE] * 4 + [pack(msgspec.json.decode(LINE)), LINE])
@example(PLANS[0], [LINE] * 4 + [b"\t" + LINE, b"\r\n " + LINE])
@example(PLANS[0], [b" " + LINE] + [LINE] * 5)
@example(PLANS[0], [pack({"id": 1})] * 4 + [b"\n" + LINE])
def test_both_ways_agree(plan: FieldPlan, lines: list[bytes]) -> None:
    _check(plan, lines)


@given(st.sampled_from(PLANS), LINES, LINES)
def test_what_was_seen_before_changes_nothing(plan: FieldPlan, first: list[bytes], second: list[bytes]) -> None:
    spaces = Spaces()
    of = Decoder(plan, spaces, SEED)
    _check(plan, first, of, spaces)
    _check(plan, second, of, spaces)
    _check(plan, [LINE] * 4, of, spaces)


@pytest.mark.parametrize("number", [b"9" * 400 + b".5", b"9" * 10_001, b"9" * 10_000])
def test_one_long_number_among_short_lines_is_looked_at(number: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "BLOCK", 1024)
    columns = _check(PLANS[1], [LINE] * 1_000 + [LINE[:-1] + b',"other":' + number + b"}"])
    assert columns.bad.keys() == (set() if len(number) == 10_000 else {1_000})


def test_a_line_that_is_no_document_leaves_the_others() -> None:
    plan = PLANS[0]
    columns = _check(plan, [LINE, b'{"x":[1', b"2]}", LINE])
    assert set(columns.bad) == {1, 2}
    assert columns.inputs[("amount",)].lane.tolist() == [3, 0, 0, 3]


def test_a_field_given_twice_is_the_last() -> None:
    columns = _check(PLANS[0], [LINE] * 3 + [LINE[:-1] + b',"amount":4,"amount":9}'])
    assert columns.inputs[("amount",)].lane.tolist() == [3, 3, 3, 9]


def test_a_column_of_floats_may_have_ints() -> None:
    lines = [LINE.replace(b'"amount":3', b'"amount":' + amount) for amount in (b"1.5", b"2.5", b"3", b"4.0", b"5")]
    column = _check(PLANS[0], lines).inputs[("amount",)]
    assert column.kinds().tolist() == [LaneKind.FLOAT, LaneKind.FLOAT, LaneKind.INT, LaneKind.FLOAT, LaneKind.INT]
    assert column.values() == [1.5, 2.5, 3, 4.0, 5]


def test_fields_that_are_absent_are_null() -> None:
    columns = _check(PLANS[0], [LINE, LINE, LINE, b'{"id":4}', b'{"id":5,"name":null,"amount":null}'])
    assert columns.inputs[("amount",)].kinds().tolist() == [1, 1, 1, 0, 0]
    assert columns.codes[Key((("name",),), True)].tolist() == [0, 0, 0, 1, 1]


def test_no_lines() -> None:
    columns = Decoder(PLANS[0], Spaces(), SEED).columns([])
    assert columns.n == 0
    assert columns.k0.size == 0
    assert columns.bad == {}


def test_dicts_and_lines_of_one_document_agree() -> None:
    doc = json.loads(LINE)
    spaces = Spaces()
    of = Decoder(PLANS[0], spaces, SEED)
    shown = [_shown(c, spaces, 0) for c in (of.columns([LINE]), of.columns([pack(doc)]), of.of_dicts([doc]))]
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][str(Key((("name",),), True))] == encode_key("Sue")
