"""Named cases of input: lines in every form, functions that change documents, tickets in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import penstock as ps
from penstock.spout import open_file
from tests.harness.beside import Beside, number_of, user
from tests.harness.checks import counts_of
from tests.harness.worlds import World
from tests.oracle.model import Counts
from tests.oracle.reducers import Count
from tests.oracle.tables import Table
from tests.oracle.views import View
from tests.waiting import PATIENCE

FORMS = ["bytes", "str", "block", "text", "iterator"]


def in_form(lines: list[str], form: str) -> Any:
    """Return the lines in one of the forms that users pass. The iterator yields them as a file does."""
    text = "\r\n".join(lines) + "\r\n"
    return {
        "bytes": [line.encode() for line in lines],
        "str": lines,
        "block": text.encode(),
        "text": text,
        "iterator": (line.encode() + b"\n" for line in lines),
    }[form]


@pytest.mark.parametrize("form", FORMS)
def test_blank_lines_are_no_records_and_count_as_lines(both: Beside, form: str):
    lines = ["", '  {"id": 1, "g": "a", "gs": []}', " \t", '{"id": 2, "g": "b", "gs": []}  ', "7", "", "[1]", "{}"]
    answer = both.engine.put_many("plain", in_form(lines, form))
    assert counts_of(answer) == Counts(applied=2, rejected=3) == both.model.put_many("plain", lines)
    assert [number_of(rejection) for rejection in answer.rejections] == [5, 7, 8]
    both.check()


@pytest.mark.parametrize("before", [0, 40, 3_000])
def test_white_space_before_a_line_changes_nothing(both: Beside, tmp_path: Path, before: int):
    """A line has the same meaning alone, after other lines of a decoder, and in a file."""
    lines = [f'{{"id": {number}, "g": "a", "gs": []}}' for number in range(before)]
    lines += ['\t{"id": 9001, "g": "b", "gs": []}', ' \r {"id": 9002, "g": "b", "gs": []}', '\x0b{"id": 9003}']
    path = tmp_path / "spaced.jsonl"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = Counts(applied=before + 2, rejected=1)
    assert both("put_many", "plain", [line.encode() for line in lines]) == expected
    both.check()
    again = Counts(equal=before + 2, rejected=1)
    spout = open_file(str(path), "plain")
    with both.engine.snapshot() as snap:
        spout.begin(snap.remembered)
    [(_, answer)] = both.engine.load("plain", iter(lambda: spout.next_batch(5_000), None))
    assert counts_of(answer) == again
    for line in lines[-3:]:
        assert counts_of(both.engine.put("plain", line)) == Counts(equal="9003" not in line, rejected="9003" in line)


def test_bytes_are_json_and_nothing_else(both: Beside):
    packed = b"\x83\xa2id\x01\xa1g\xa1a\xa2gs\x90"
    assert both("put_many", "plain", [packed]) == Counts(rejected=1)
    for line in ["", " ", "\ufeff{}", "\xa0{}", "null", '"text"']:
        assert counts_of(both.engine.put("plain", line)) == Counts(rejected=1)
        assert counts_of(both.engine.put("plain", line.encode())) == Counts(rejected=1)


def test_rejections_are_told_in_the_order_of_the_input(both: Beside):
    docs = [{"id": None}, 7, {"id": 1, "g": "a", "gs": []}, {"id": {1}}, "{", {"g": 1}, None]
    answer = both.engine.put_many("plain", docs)
    assert [number_of(rejection) for rejection in answer.rejections] == [1, 2, 4, 5, 6, 7]
    assert both.engine.status()["tables"]["plain"]["rejected"] == 6


def test_missing_values_of_pandas_are_null(both: Beside):
    frame = pd.DataFrame({"id": [1, 2, 3], "g": ["a", None, "b"], "v": [1.5, None, 2.0], "gs": [[], [], []]})
    docs = [{"id": 1, "g": "a", "v": 1.5, "gs": []}, {"id": 2, "g": None, "v": None, "gs": []}]
    docs.append({"id": 3, "g": "b", "v": 2.0, "gs": []})
    assert counts_of(both.engine.put_many("plain", frame)) == both.model.put_many("plain", docs)
    both.check()


def test_a_key_too_long_is_rejected_among_others(both: Beside):
    docs = [{"id": key, "g": "a", "gs": []} for key in ("a", "x" * 70_000, "b")]
    assert both("put_many", "plain", docs) == Counts(applied=2, rejected=1)
    assert both("put_many", "plain", docs[1:2]) == Counts(rejected=1)


@pytest.mark.parametrize("merge", ["replace", "patch"])
def test_a_function_may_spoil_its_document(place: Path | None, merge: str):
    app = ps.App("spoilt")
    table = app.table("plain", key="id", merge=merge)
    counts = table.view("counts", key="g", reduce={"n": ps.count(), "ids": ps.sum("id")})

    @table.view(reduce=ps.count())
    def spoils(doc: dict[str, Any]) -> Iterator[Any]:
        yield doc.pop("g")
        doc["tags"].clear()
        if doc["id"] == 3:
            raise ValueError("none of mine")

    @table.view(reduce=ps.count())
    def looks(doc: dict[str, Any]) -> Iterator[Any]:
        yield doc["g"], None
        yield from doc["tags"]

    @counts.view(reduce=ps.sum())
    def spoils_rows(row: ps.Row) -> Iterator[Any]:
        yield row.value.pop("n"), row.value.pop("ids")

    @counts.view(reduce=ps.sum())
    def looks_at_rows(row: ps.Row) -> Iterator[Any]:
        yield row.value["n"], row.value["ids"]

    docs = [{"id": key, "g": "ab"[key % 2], "tags": ["x"]} for key in range(5)]
    with ps.open(app, place) as engine:
        assert engine.put_many("plain", docs).held == 1
        assert docs[0] == {"id": 0, "g": "a", "tags": ["x"]}
        with engine.snapshot() as snap:
            assert sorted(snap.table("plain").items()) == [(doc["id"], doc) for doc in docs]
            assert dict(snap.view("spoils").items()) == {"a": 3, "b": 1}
            assert dict(snap.view("looks").items()) == {"a": 3, "b": 2, "x": 5}
            assert dict(snap.view("looks_at_rows").items()) == dict(snap.view("spoils_rows").items()) == {3: 6, 2: 4}


def test_a_function_is_asked_once_of_a_document_that_can_be_taken(place: Path | None):
    asked: list[Any] = []
    app = ps.App("asked")

    @app.table("plain", key="id").view(reduce=ps.count())
    def ask(doc: dict[str, Any]) -> Iterator[Any]:
        asked.append(doc["id"])
        yield from doc["gs"]

    with ps.open(app, place) as engine:
        engine.put("plain", {"id": 1, "gs": [1, 2]})
        engine.put_many("plain", [{"gs": []}, {"id": 2, "gs": [(1, 2, 3)]}, {"id": 3, "gs": 7}, {"id": 4, "gs": [[1]]}])
        assert asked == [1, 2, 3, 4]


class Untold(Exception):
    """An exception that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("raised", [Untold(), ValueError("\ud800"), ValueError("x" * 1_000_000), ValueError(10**4000)])
def test_whatever_a_function_raises_holds_its_document(place: Path | None, raised: Exception):
    app = ps.App("raises")

    @app.table("plain", key="id").view("raises", reduce=ps.count())
    def raises(doc: dict[str, Any]) -> Iterator[Any]:
        yield 1
        raise raised

    with ps.open(app, place) as engine:
        assert engine.put("plain", {"id": 1}).held == 1
        (hold,) = engine.status()["views"]["raises"]["holds"]
        assert type(raised).__name__ in hold["reason"]
        assert len(hold["reason"]) < 2_000


def test_a_wrong_kind_that_nobody_could_write_out_holds_its_document(both: Beside):
    for v in ([10**5000], {"a": 10**5000}, "x" * 100_000):
        assert both("put", "plain", {"id": 1, "g": "a", "gs": ["a"], "v": v}) == Counts(applied=1, held=1)


def test_a_tuple_of_a_subclass_is_a_group_and_a_value(place: Path | None):
    app = ps.App("rows")
    names = app.table("plain", key="id").view("names", key="name", reduce=ps.count())

    @names.view(reduce=ps.sum())
    def same(row: ps.Row) -> Iterator[Any]:
        yield row

    with ps.open(app, place) as engine:
        engine.put_many("plain", [{"id": 1, "name": "Sue"}, {"id": 2, "name": "Sue"}])
        with engine.snapshot() as snap:
            assert dict(snap.view("same").items()) == {"Sue": 2}


def test_what_a_count_was_told_of_a_value_of_no_kind_is_taken_back(place: Path | None):
    view = View("some", "plain", Count("v"), key="g")
    world = World((Table("plain", "id"),), (view,))
    with ps.open(world.app(), place) as engine:
        both = Beside(engine, world)
        both("put_many", "plain", [{"id": key, "g": "a", "v": "text"} for key in range(2)])
        assert both("put", "plain", {"id": 1, "g": {}, "v": 7}) == Counts(applied=1, held=1)
        both("put", "plain", {"id": 1, "g": "b", "v": 7})
        assert both.shown("some") == {"a": 1, "b": 1}


def test_what_waits_for_its_ticket_goes_in_first(store_path: Path):
    app = ps.App("turns")
    app.table("plain", key="id")

    def shown() -> Any:
        with engine.snapshot() as snap:
            return snap.table("plain")[1]["n"]

    with ps.open(app, store_path, durability="group") as engine:
        for n in range(0, 40, 4):
            engine.put("plain", {"id": 1, "n": n})
            assert engine.put_many("plain", [{"id": 1, "n": n + 1}], strict=True).done()
            assert shown() == n + 1
            engine.put("plain", {"id": 1, "n": n})
            with engine.batch() as batch:
                batch.put("plain", {"id": 1, "n": n + 2})
            assert shown() == n + 2
            engine.put("plain", {"id": 1, "n": n})
            engine.ingest([ps.Record("plain", 1, {"id": 1, "n": n + 3}, offset=n)], source="s", resume=n + 1)
            assert shown() == n + 3


def test_a_ticket_of_many_batches_is_done_with_the_last(store_path: Path):
    app = ps.App("long")
    app.table("plain", key="id").view("all", key=(), reduce=ps.count())
    with ps.open(app, store_path, durability="group") as engine:
        ticket = engine.put_many("plain", ({"id": key} for key in range(500)), batch=7)
        assert counts_of(ticket) == Counts(applied=500)
        assert engine.put_many("plain", []).result(timeout=PATIENCE) == ps.Counts()


def test_a_batch_that_ended_takes_nothing_more(both: Beside):
    with both.engine.batch() as batch:
        batch.put("plain", {"id": 1, "g": "a", "gs": []})
    for call, args in (("put", [{"id": 2}]), ("put_many", [[{"id": 2}]]), ("delete", [1])):
        with pytest.raises(ps.Closed, match="the batch"):
            getattr(batch, call)("plain", *args)
    assert batch.counts.applied == 1


def test_rejections_of_a_batch_are_numbered_on(both: Beside):
    with both.engine.batch() as batch:
        batch.put("plain", {"id": 1, "g": "a", "gs": []})
        batch.put("plain", {"g": "a"})
        batch.put_many("plain", [{"g": "a"}])
        batch.delete("plain", None)
        batch.put("users", {"id": 1, "name": "Sue"})
    wanted = ["record 2", "document 1", "record 3", "record 1"]
    assert [rejection.where for rejection in batch.counts.rejections] == wanted


def test_strict_says_how_many_documents_are_in(both: Beside):
    both("put", "users", user("Ann", 5, key=3))
    docs = [user("Sue", 1, key) for key in range(4)] + [user("Joe", 2, 2), user("Ann", 5, 3), user("Bob", 6, 4), {}]
    with pytest.raises(ps.BatchRejected) as refused:
        both.engine.put_many("users", docs, strict=True, batch=3)
    assert refused.value.accepted == 5, "of 6 before the batch that was undone one was late, and one was there already"
    both.model.put_many("users", docs[:6])
    both.check()
