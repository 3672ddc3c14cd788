"""Each rule on a log finds a log that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connector.reference.log_rules import violations
from tests.connector.reference.sink import transcripts

ROUND: list[list[Any]] = [["1-ok", "t1", [(1, 0, 3)]], ["2-ok", "t1", 3]]


def test_a_right_log_breaks_no_rule() -> None:
    log = [
        ["list-uncommitted", []],
        *ROUND,
        ["next-txn-force-abort", "a gap"],
        ["1-rollback", "t2", [(1, 3, 9)]],
        ["connection-closed", True],
        ["2-rollback", "t2", 3],
        ["1-ok", "t3", [(1, 3, 3)]],
        ["2-ok", "t3", 3],
        ["1-ok", "t4", [(1, 3, 5)]],
    ]
    assert violations(log, ended=False) == []
    assert violations(log) == ["record 10: t4 is still open"]


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ([ROUND[0], ["1-ok", "t2", [(1, 0, 3)]], ["2-ok", "t2", 3]], "record 1: t2 has a vote while t1 is open"),
        ([*ROUND, ROUND[1]], "record 2: t1 is decided without an open vote"),
        ([*ROUND, ["2-error", "t1", "unknown"]], "record 2: t1 is decided without an open vote"),
        ([["1-rollback", "t", [(1, 0, 3)]], ["2-ok", "t", 3]], "record 1: t is committed after an abort vote"),
        ([ROUND[0], ["2-ok", "t1", 2]], "record 1: t1 is committed up to 2, and its vote ended at 3"),
        ([ROUND[0], ["2-rollback", "t1", 1]], "record 1: t1 is rolled back to 1, and the last commit ended at 0"),
        ([*ROUND, ["1-ok", "t", [(1, 0, 5)]]], "record 2: t starts at 0, and the last commit ended at 3"),
        ([["1-ok", "t", []]], "record 0: t has the ranges []; one range of stream 1 is needed"),
        ([["1-ok", "t", [(2, 0, 0)]]], "record 0: t has the ranges [(2, 0, 0)]; one range of stream 1 is needed"),
        ([["next-txn-force-abort", "a gap"], ROUND[0]], "record 1: t1 has a commit vote after a gap"),
        ([["3-ok", "t"]], "record 0: '3-ok' is no kind of record"),
    ],
)
def test_a_wrong_log_is_found(log: list[list[Any]], found: str) -> None:
    assert violations(log, ended=False) == [found]


def test_a_commit_below_the_last_one_is_found() -> None:
    log = [*ROUND, ["1-ok", "t2", [(1, 3, 2)]], ["2-ok", "t2", 2]]
    assert violations(log) == ["record 3: t2 ends at 2, before the last commit at 3"]


def test_scripts_that_break_the_protocol_leave_wrong_logs() -> None:
    logs = [(name, files["log"]) for name, one in transcripts.read().items() for files in one.workers.values()]
    assert {name for name, log in logs if violations(log, ended=False)} == {
        "no range",
        "no range, then commit",
        "two ranges",
        "two ranges, then a kill",
        "start elsewhere",
        "two open transactions",
        "vote again",
        "unknown transaction",
        "unknown transaction beside an open one",
    }
