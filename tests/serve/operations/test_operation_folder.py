"""Records of operations: one of a kind at a time, progress, cancellation, and the end of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.serve.operations.operation_folder import KEPT, OperationFolder
from penstock.serve.operations.operation_record import (
    OperationCancelled,
    OperationRecord,
    OperationState,
    OperationUnderWay,
)
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
BEGIN = """
import sys
from penstock.serve.operations.operation_folder import OperationFolder

claim = OperationFolder(sys.argv[1]).begin("Check", "other")
claim.tell(3, 10)
print(claim.record.id, flush=True)
sys.stdin.read()
"""


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def folder_in(path: Path) -> tuple[OperationFolder, Clock]:
    clock = Clock()
    return OperationFolder(str(path / "state.operations"), clock), clock


def test_one_operation_of_a_kind_runs_at_a_time(tmp_path: Path) -> None:
    folder, _ = folder_in(tmp_path)
    first = folder.begin("Check", "board")
    with pytest.raises(OperationUnderWay, match="operation 1 is a Check"):
        OperationFolder(str(folder.path)).begin("Check", "board")
    other = folder.begin("Restate", "board")
    first.end(OperationState.DONE, '{"ok": true}')
    again = folder.begin("Check", "board")
    assert [record.id for record in folder.listed()] == ["3", "2", "1"]
    assert [record.state.value for record in folder.listed()] == ["waiting", "waiting", "done"]
    for claim in (other, again):
        claim.end(OperationState.FAILED, error="no")
    assert first.record.data()["result"] == {"ok": True}


def test_progress_is_written_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    folder, clock = folder_in(tmp_path)
    claim = folder.begin("Check", "board")
    seen = []
    for done in range(1, 11):
        claim.tell(done, 10)
        clock.now += 0.0625
        record = folder.find("1")
        assert record is not None
        seen.append(record.done)
    assert seen == [1, 1, 1, 1, 5, 5, 5, 5, 9, 10]
    claim.end(OperationState.DONE)
    assert (claim.record.done, claim.record.total) == (10, 10)


def test_a_cancelled_operation_ends_at_its_next_step(tmp_path: Path) -> None:
    folder, clock = folder_in(tmp_path)
    claim = folder.begin("Check", "board")
    claim.tell(1, 10)
    assert folder.cancel("1") == claim.record
    assert folder.cancel("2") is None
    clock.now += 1
    with pytest.raises(OperationCancelled):
        claim.tell(2, 10)
    claim.end(OperationState.CANCELLED)
    ended = folder.cancel("1")
    assert ended is not None
    assert ended.state is OperationState.CANCELLED
    later = folder.begin("Check", "board")
    later.tell(1, 10)
    later.stop()
    with pytest.raises(OperationCancelled, match="stopped"):
        later.tell(2, 10)
    later.end(OperationState.CANCELLED)


def test_records_are_kept_for_a_day_and_numbers_are_not_used_again(tmp_path: Path) -> None:
    folder, clock = folder_in(tmp_path)
    folder.begin("Check", "board").end(OperationState.DONE)
    running = folder.begin("Restate", "board")
    clock.now += KEPT - 1
    folder.begin("Check", "board").end(OperationState.DONE)
    assert len(folder.listed()) == 3
    clock.now += 2
    folder.begin("Check", "board").end(OperationState.DONE)
    assert [record.id for record in folder.listed()] == ["4", "3", "2"]
    running.end(OperationState.DONE)
    for file in folder.path.glob("*.json"):
        file.unlink()
    folder.begin("Check", "board").end(OperationState.DONE)
    assert [record.id for record in folder.listed()] == ["5"]


@pytest.mark.parametrize("number", ["", "0", "x", "-1", "../1", "1/../1", "²", "1 "])
def test_a_number_that_no_operation_has(tmp_path: Path, number: str) -> None:
    folder, _ = folder_in(tmp_path)
    assert folder.find(number) is None
    folder.begin("Check", "board").end(OperationState.DONE)
    assert folder.find(number) is None


def test_an_operation_whose_process_ended_is_failed(tmp_path: Path) -> None:
    folder, _ = folder_in(tmp_path)
    lost: list[str] = []
    folder.lost = lambda record: lost.append(record.id)
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(folder.path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        found = folder.find("1")
        assert found is not None
        assert (found.state, found.done, found.total, found.by) == (OperationState.RUNNING, 3, 10, "other")
        with pytest.raises(OperationUnderWay):
            folder.begin("Check", "board")
        process.kill()
        process.wait(PATIENCE)
    claim = folder.begin("Check", "board")
    found = folder.find("1")
    assert found is not None
    assert (found.state, "begin it again" in found.error) == (OperationState.FAILED, True)
    assert folder.find("1") == found
    assert lost == ["1"]
    claim.end(OperationState.DONE)


def test_an_operation_that_ends_during_a_look_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = folder_in(tmp_path)
    claim, runs = folder.begin("Check", "board"), folder._runs

    def after_its_end(record: OperationRecord) -> bool:
        claim.end(OperationState.DONE, "1")
        return runs(record)

    monkeypatch.setattr(folder, "_runs", after_its_end)
    found = folder.find(claim.record.id)
    assert found is not None
    assert (found.state, found.result, found.error) == (OperationState.DONE, "1", "")
