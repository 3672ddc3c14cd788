"""Named cases of versions, batches and rejections: each is a typical error of such engines.

Each case runs in memory and on LMDB, beside the oracle. A case contains the events only, and the expected rows where
they matter.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.harness.beside import WORLD, Beside, number_of, user
from tests.harness.checks import counts_of
from tests.harness.worlds import TINY
from tests.oracle.model import Counts, Record


def test_a_group_that_empties_and_comes_back(both: Beside):
    both("put", "users", user("Sue", 1))
    both("delete", "users", 1, ts=2)
    assert both.shown("names") == {}
    both("put", "users", user("Sue", 3))
    assert both.shown("names") == {"Sue": 1}


def test_sue_joe_sue_bob(both: Beside):
    for ts, name in enumerate(["Sue", "Joe", "Sue", "Bob"]):
        both("put", "users", user(name, ts))
        assert both.shown("names") == {name: 1}


def test_sue_joe_sue_bob_in_one_batch(both: Beside):
    both("put_many", "users", [user(name, ts) for ts, name in enumerate(["Sue", "Joe", "Sue", "Bob"])])
    assert both.shown("names") == {"Bob": 1}


def test_two_documents_swap_groups_in_one_batch(both: Beside):
    both("put_many", "users", [user("Sue", 1, key=1), user("Joe", 1, key=2)])
    both("put_many", "users", [user("Joe", 2, key=1), user("Sue", 2, key=2)])
    assert both.shown("names") == {"Sue": 1, "Joe": 1}


def test_an_equal_redelivery(both: Beside):
    record = ("users", 1, user("Sue", 1))
    for wanted in (Counts(applied=1), Counts(late=1)):
        got = both.engine.ingest([ps.Record(*record, offset=0)], source="file:a", resume=1)
        assert counts_of(got) == wanted == both.model.ingest([Record(*record, offset=0)], "file:a", 1)
        both.check()
    assert both("put", "users", user("Sue", 1)) == Counts(equal=1)
    with both.engine.snapshot() as snap:
        assert dict(snap.sources) == {"file:a": 1}


def test_a_redelivery_is_no_later_arrival(both: Beside):
    records = [("plain", 1, {"id": 1, "g": g, "gs": []}) for g in ("first", "second")]
    for resume in (2, 2):
        real = [ps.Record(*r, offset=i) for i, r in enumerate(records)]
        both.engine.ingest(real, source="s", resume=resume)
        both.model.ingest([Record(*r, offset=i) for i, r in enumerate(records)], "s", resume)
        both.check()
    both.engine.ingest([ps.Record(*records[0], offset=0)], source="s", resume=2)
    assert list(both.shown("sums")) == ["second"]


def test_versions_that_coalesce_in_a_batch_are_never_told(both: Beside):
    both("put", "plain", {"id": 1, "g": "a", "gs": ["a"], "v": 1})
    with both.batch() as batches:
        for batch in batches:
            batch.put("plain", {"id": 1, "g": "b", "gs": ["b"], "v": 2})
            batch.put("plain", {"id": 1, "g": "c", "gs": ["c"], "v": "no number"})
    assert list(both.shown("sums")) == ["a"]
    with both.batch() as batches:
        for batch in batches:
            batch.delete("plain", 1)
            batch.put("plain", {"id": 1, "g": "d", "gs": [], "v": 3})
    assert list(both.shown("sums")) == ["d"]


def test_created_and_deleted_in_one_batch(both: Beside):
    with both.batch() as batches:
        for batch in batches:
            batch.put("users", user("Sue", 1))
            batch.delete("users", 1)
    assert both.shown("names") == {}
    assert both("put", "users", user("Sue", 0)) == Counts(late=1)


def test_delete_then_a_late_record(both: Beside):
    both("put", "users", user("Sue", 1))
    both("delete", "users", 1, ts=5)
    assert both("put", "users", user("Joe", 4)) == Counts(late=1)
    assert both("put", "users", user("Joe", 5)) == Counts(applied=1)


def test_a_delete_of_an_unknown_key_stands_against_older_records(both: Beside):
    both("delete", "users", 1, ts=5)
    assert both("put", "users", user("Joe", 4)) == Counts(late=1)


def test_a_late_patch_below_and_above_the_floor(both: Beside):
    both("put", "patched", {"id": 1, "g": "x", "a": 1, "ts": 5})
    both("delete", "patched", 1, ts=3)
    assert both("put", "patched", {"id": 1, "b": 1, "ts": 2}) == Counts(late=1)
    assert both("put", "patched", {"id": 1, "b": 1, "g": "late", "ts": 4}) == Counts(applied=1)
    both("put", "patched", {"id": 1, "a": None, "ts": 6})
    assert both.shown("fields") == {"x": 0}


def test_bad_lines_are_rejected_by_number_and_the_others_taken(both: Beside):
    lines = ['{"id": 1, "g": "a", "gs": []}', '{"id": 2', '{"id": 3, "g": "a", "gs": []}', "[4]", '{"g": "no key"}']
    text = "\n".join(lines) + "\n"
    for given in (lines, text, text.encode(), [line.encode() for line in lines]):
        answer = counts = both.engine.put_many("plain", given)
        counts = counts_of(answer)
        assert counts == both.model.put_many("plain", lines)
        assert [number_of(rejection) for rejection in answer.rejections] == [2, 4, 5]
        assert all(rejection.table == "plain" and rejection.reason for rejection in answer.rejections)
        both.check()
    assert both.shown("sums")["a"]["n"] == 2


def test_lines_do_not_run_into_each_other(both: Beside):
    """Joined with commas or without newlines these would make two documents."""
    lines = ['{"id": 1, "g": [1', '2], "gs": []}', '{"id": 3, "gs": []}, {"id": 4, "gs": []}', '{"id": 5, "gs": []}']
    assert both("put_many", "plain", lines) == Counts(applied=1, rejected=3)


def test_strict_undoes_the_batch(both: Beside):
    both("put", "plain", {"id": 1, "g": "a", "gs": []})
    before = both.engine.digest()
    docs = [{"id": 1, "g": "b", "gs": []}, {"id": 2, "g": "c", "gs": []}, {"g": "no key"}]
    with pytest.raises(ps.BatchRejected, match="plain") as refused:
        both.engine.put_many("plain", docs, strict=True)
    assert refused.value.accepted == 0
    assert [number_of(rejection) for rejection in refused.value.rejections] == [3]
    both.check()
    assert both.engine.digest() == before


def test_an_undone_batch_leaves_no_trace(both: Beside):
    both("put", "plain", {"id": 1, "g": "a", "gs": []})
    before = both.engine.digest()
    with pytest.raises(ZeroDivisionError):
        _broken_batch(both.engine)
    both.check()
    assert both.engine.digest() == before
    assert both("put", "users", {"id": 1, "name": "Sue", "ts": "2024-01-01T00:00:00Z"}) == Counts(applied=1), (
        "the number that came first was undone, so the kind of ts is still free"
    )


def _broken_batch(engine: Any) -> None:
    with engine.batch() as batch:
        batch.put("plain", {"id": 1, "g": "b", "gs": []})
        batch.put("plain", {"id": 2, "g": "c", "gs": []})
        batch.delete("plain", 1)
        batch.put("users", user("Sue", 1))
        raise ZeroDivisionError


def test_an_emission_is_a_multiset(both: Beside):
    both("put", "plain", {"id": 1, "g": None, "gs": ["a", "b", "a"], "v": 1})
    both("put", "plain", {"id": 1, "g": None, "gs": ["b", "a"], "v": 1})
    assert both.shown("spread") == {"a": {"n": 1, "total": 1}, "b": {"n": 1, "total": 1}}


def test_a_chain_follows_in_the_same_transaction(both: Beside):
    both("put_many", "users", [user("Sue", 1, key=1), user("Joe", 1, key=2), user("Bobby", 1, key=3)])
    assert both.shown("lengths") == {3: 2, 5: 1}
    both("put", "users", user("Bobby", 2, key=1))
    assert both.shown("lengths") == {3: 1, 5: 2}


def test_a_late_record_after_reopening_is_late(tmp_path: Path):
    with ps.open(WORLD.app(), tmp_path / "state") as engine:
        both = Beside(engine, WORLD)
        both("put_many", "users", [user("Sue", 5, key) for key in range(3)])
        both("put_many", "patched", [{"id": key, "g": "x", "a": 1, "ts": 5} for key in range(3)])
        both("delete", "users", 2, ts=6)
        both("delete", "patched", 2, ts=6)
    for call in ("put", "put_many"):
        with ps.open(WORLD.app(), tmp_path / "state") as engine:
            both.engine = engine
            for key in range(3):
                late = {"id": key, "g": "y", "a": 2, "ts": 4}
                assert both(call, "users", user("Joe", 4, key) if call == "put" else [user("Joe", 4, key)]).late == 1
                assert both(call, "patched", late if call == "put" else [late]).late == 1
            assert both("put", "users", user("Sue", 5, 0)).equal == 1


def test_a_large_history_with_reopening(tmp_path: Path):
    choose = random.Random(11)
    both: Beside | None = None
    for _ in range(4):
        with ps.open(WORLD.app(), tmp_path / "state", limits=TINY) as engine:
            both = both or Beside(engine, WORLD)
            both.engine = engine
            both.check()
            for _ in range(3):
                docs = [
                    user(f"n{choose.randrange(30)}", choose.randrange(9), choose.randrange(400)) for _ in range(700)
                ]
                both("put_many", "users", docs)
            both("delete", "users", choose.randrange(400))
