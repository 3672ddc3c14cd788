"""Documents of any shape and depth give the same columns as structs and as dicts; planted bugs in structs are found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.mapreduce.decode import decoder, typed_blocks
from tests.harness.planting import Bug, Edit
from tests.mapreduce.decode import nested_lines

BLOCKS = "mapreduce.decode.typed_blocks:"
BUGS = [
    Bug(
        "a struct is read where a document has no map",
        f"{BLOCKS}_Step.column",
        "value if type(value) is self.struct else self.nulls",
        "value",
    ),
    Bug(
        "a map that a view reads whole is read as a struct",
        f"{BLOCKS}TypedDecoders._field",
        "if path in below or not types",
        "if not types",
    ),
    Bug(
        "a field of a map that may be absent is never null",
        f"{BLOCKS}TypedDecoders._field",
        "type(None) in types",
        "False",
        Edit(f"{BLOCKS}_nulls", "[None]", "[0]"),
    ),
    Bug(
        "a path is read one step too deep out of a whole value",
        f"{BLOCKS}TypedDecoders.block",
        "path[len(whole) :]",
        "path[len(whole) + 1 :]",
    ),
    Bug(
        "a column serves all paths of one map",
        f"{BLOCKS}TypedDecoders._column",
        "found = columns[path] =",
        "found = columns[path[:-1]] =",
    ),
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of 6 lines, so that a few lines make several blocks."""
    for name, value in (("BLOCK", 6), ("_SAMPLE", 2), ("_FEW", 0)):
        monkeypatch.setattr(decoder, name, value)


def test_structs_and_dicts_give_the_same_columns() -> None:
    assert nested_lines.run(range(25)) > 25 * 24, "most lines fit into structs"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, AttributeError, LookupError, TypeError)):
        nested_lines.run(range(25))


@pytest.mark.parametrize("place", [65_530, 65_536, 65_540, 131_072])
def test_a_large_exponent_is_found_wherever_it_lies(place: int) -> None:
    line = b'{"a": "' + b"x" * 1_000 + b'"}'
    lines = [line] * 200
    assert typed_blocks.is_plain_json(lines)
    for shift in range(8):
        bad = b'{"a": 1e999}'
        before = (place - shift) // len(line)
        rest = place - shift - before * len(line)
        padded = [*lines[:before], b'{"b": "' + b"y" * max(0, rest - 9 + len(line)) + b'"}', bad, *lines[before:]]
        assert not typed_blocks.is_plain_json(padded)


def test_a_deep_line_is_found_among_lines_with_many_brackets() -> None:
    wide = b'{"a": [' + b",".join([b"{}"] * 90) + b"]" + b" " * 300 + b"}"
    deep = b'{"a": ' + b"[" * 120 + b"]" * 120 + b"}"
    lines = [wide] * 200
    assert typed_blocks.is_plain_json(lines)
    for place in (0, 100, 200):
        assert not typed_blocks.is_plain_json([*lines[:place], deep, *lines[place:]])


@pytest.mark.parametrize("maps", ["fields", "functions"])
def test_blocks_leave_nothing_for_the_cycle_collector(maps: str) -> None:
    """Count in a process of its own: other threads of this one may leave cycles at any moment."""
    command = [sys.executable, "-m", "tests.mapreduce.decode.block_garbage", maps]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "0\n", done.stdout + done.stderr


def test_each_function_gets_documents_of_its_own() -> None:
    shop = ps.App("shop")
    table = shop.table("t", key="id")

    @table.view(reduce=ps.count())
    def emptied(doc: Any) -> Iterator[Any]:
        yield doc["a"]["b"].pop()

    @table.view(reduce=ps.count())
    def lengths(doc: Any) -> Iterator[Any]:
        yield len(doc["a"]["b"])

    docs = [{"id": i, "a": {"b": [i]}} for i in range(9)]
    for given in (docs, [json.dumps(doc).encode() for doc in docs], [{"a": {"b": [0]}}, *docs]):
        with ps.open(shop, None) as engine:
            counts = engine.put_many("t", given)
            assert isinstance(counts, ps.Counts)
            assert counts.rejected == len(given) - 9
            with engine.snapshot() as snap:
                assert dict(snap.view("lengths").items()) == {1: 9}
                assert dict(snap.view("emptied").items()) == dict.fromkeys(range(9), 1)
                assert snap.table("t").get(3) == docs[3]
