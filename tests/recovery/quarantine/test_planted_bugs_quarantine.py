"""Bugs planted in the quarantine of rejected records: the examples find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from tests.harness.planting import Bug
from tests.recovery.quarantine import test_quarantine_records as records
from tests.recovery.quarantine import test_quarantine_superseded as superseded


def without_ts(since: Callable[[ps.Engine], None], wins: bool, compacted: bool) -> Callable[[], None]:
    return lambda: superseded.test_without_ts_a_record_is_taken_if_its_key_is_unwritten(None, since, wins, compacted)


def on_one(test: Callable[[ps.Engine], None]) -> Callable[[], None]:
    def run() -> None:
        with ps.open(records.app(), None) as engine:
            test(engine)

    return run


BUGS = [
    (
        Bug(
            "what is taken stays in quarantine",
            "recovery.quarantine.retry_drop:OneStoreRetries._take",
            "release({number: tables[number] for number in taken}, writes)",
            "pass",
        ),
        on_one(records.test_a_record_is_retried_with_its_own_ts),
    ),
    (
        Bug(
            "what is rejected again is let go",
            "recovery.quarantine.retry_drop:OneStoreRetries._take",
            "release({number: tables[number] for number in taken}, writes)",
            "release(dict(tables), writes)",
        ),
        on_one(records.test_what_is_rejected_again_stays),
    ),
    (
        Bug(
            "a record without ts is taken over a later one",
            "gateway.supersession:superseded",
            "out[i] = WRITTEN",
            "pass",
        ),
        without_ts(superseded.overwritten, wins=False, compacted=False),
    ),
    (
        Bug(
            "a line that was copied counts as written",
            "gateway.table_node:TableNode.carry",
            "if numbered:",
            "if False:",
        ),
        without_ts(superseded.nothing, wins=True, compacted=True),
    ),
    (
        Bug(
            "a deletion that is compacted away is forgotten",
            "gateway.supersession:_deleted",
            "since < node.log.head",
            "since < 0",
        ),
        without_ts(superseded.deleted, wins=False, compacted=True),
    ),
    (
        Bug(
            "older records are retried after newer ones",
            "recovery.quarantine.retry_drop:OneStoreRetries._all",
            "reversed(list(_chunks(found.records)))",
            "list(_chunks(found.records))",
        ),
        on_one(superseded.test_of_several_the_last_wins_however_many_steps),
    ),
    (
        Bug(
            "places are counted without what was refused",
            "core.input.user_transaction:_rejects_of",
            "part.places(rejected)",
            "list(rejected)",
        ),
        on_one(records.test_a_record_is_kept_with_its_source_place_and_reason),
    ),
]


@pytest.mark.parametrize(("bug", "example"), BUGS, ids=lambda value: getattr(value, "name", ""))
def test_a_planted_bug_is_found(bug: Bug, example: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    example()
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        example()
