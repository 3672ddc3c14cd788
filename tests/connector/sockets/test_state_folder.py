"""The folder of a sink's logs: names, cut ends, damage, retired workers, and logs that are rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connector import AbortForced, CommitDone, CommitVote, LogDamaged, LogSummary, StreamNamed, WorkerNamed
from penstock.connector.sockets.state_folder import StateFolder, WorkerLogs
from tests.connector.sockets.test_log_file import NotedCalls

VOTE = CommitVote(1.0, "t1", ((1, 0, 6),))


def reopened(folder: Path, worker: str = "w1") -> LogSummary:
    made = StateFolder(str(folder))
    try:
        return LogSummary.of(made.log(worker).records)
    finally:
        made.close()


def test_a_record_survives_and_no_name_is_part_of_a_path(tmp_path: Path) -> None:
    made = StateFolder(str(tmp_path / "state"))
    made.log("w1").append(VOTE)
    made.log("w2").append(CommitDone(1.0, "t1", 3))
    made.close()
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["000001.log", "000002.log", "lock"]
    assert reopened(tmp_path / "state").prepared == 6
    assert reopened(tmp_path / "state", "w2").committed == 3
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_record_that_the_end_cuts_is_removed(tmp_path: Path) -> None:
    made = StateFolder(str(tmp_path))
    made.log("w1").append(VOTE)
    made.close()
    path = tmp_path / "000001.log"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:9])
    assert reopened(tmp_path).prepared == 6
    assert path.read_bytes() == whole


def test_damage_names_the_file(tmp_path: Path) -> None:
    made = StateFolder(str(tmp_path))
    made.log("w1").append(VOTE)
    made.close()
    path = tmp_path / "000001.log"
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogDamaged, match=r"000001.log: the record at byte \d+ is damaged"):
        StateFolder(str(tmp_path))


def test_a_retired_worker_starts_again_at_0_and_its_log_is_kept(tmp_path: Path) -> None:
    made = StateFolder(str(tmp_path))
    made.log("w1").append(CommitDone(1.0, "t1", 3))
    made.retire("w1")
    made.retire("w1")
    assert LogSummary.of(made.log("w1").records).committed == 0
    made.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000001.left", "000002.log", "lock"]


def test_a_worker_that_the_disk_refused_to_retire_is_retired_later(tmp_path: Path) -> None:
    files = NotedCalls()
    made = WorkerLogs(str(tmp_path), files)
    made.log("w1").append(CommitDone(1.0, "t1", 3))
    files.refused = {"replace"}
    with pytest.raises(OSError, match="no space"):
        made.retire("w1")
    files.refused = set()
    made.retire("w1")
    made.close()
    assert LogSummary.of(WorkerLogs(str(tmp_path)).log("w1").records).committed == 0


def test_each_worker_has_a_file_of_its_own_after_a_refusal(tmp_path: Path) -> None:
    files = NotedCalls()
    made = WorkerLogs(str(tmp_path), files)
    files.refused = {"replace"}
    for worker in ("w1", "w3"):
        with pytest.raises(OSError, match="no space"):
            made.log(worker)
    files.refused = set()
    made.retire("w3")
    made.log("w2").append(VOTE)
    assert LogSummary.of(made.log("w1").records).vote is None
    made.close()
    assert reopened(tmp_path, "w2").vote is not None


def test_a_large_log_is_rewritten_as_its_state(tmp_path: Path) -> None:
    made = WorkerLogs(str(tmp_path), longest=400)
    log = made.log("w1")
    log.append(StreamNamed(1.0, b"st"))
    for end in range(1, 40):
        log.append(CommitVote(1.0, f"t{end}", ((1, end - 1, end),)))
        log.append(CommitDone(1.0, f"t{end}", end))
    log.append(AbortForced(1.0, "a gap"))
    made.close()
    assert (tmp_path / "000001.log").stat().st_size < 600
    assert reopened(tmp_path) == LogSummary(b"st", 39, None, True)


@pytest.mark.parametrize(
    "records", [[], [VOTE], [StreamNamed(0.0, b"st"), CommitDone(0.0, "t", 4), AbortForced(0.0, "a gap")]]
)
def test_the_records_of_a_state_mean_that_state(records: list[object]) -> None:
    summary = LogSummary.of(records)  # type: ignore[arg-type]
    assert LogSummary.of([WorkerNamed(0.0, "w1"), *summary.records(0.0)]) == summary
