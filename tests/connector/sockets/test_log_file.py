"""A transaction log in a file: the order of its writes and syncs, and failures of either."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.connector import CommitDone, ConnectorFault, LogFile, SessionEnded

RECORD = CommitDone(1.0, "t1", 6)


class NotedCalls:
    """The real file system, and the names of the calls. The calls in `refused` fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refused: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append(name)
            if name in self.refused:
                raise OSError(28, "no space")
            return getattr(os, name)(*args)

        return call


def test_a_replaced_log_syncs_its_data_then_takes_its_name_then_syncs_the_folder(tmp_path: Path) -> None:
    files = NotedCalls()
    log = LogFile(str(tmp_path / "a.log"), files)
    log.replace([RECORD])
    assert files.calls == ["open", "open", "pwrite", "fsync", "replace", "open", "fsync", "close"]
    log.close()


def test_an_opening_syncs_the_records_that_it_returns(tmp_path: Path) -> None:
    """A process that was killed before its sync left a record that a power loss would take."""
    log = LogFile(str(tmp_path / "a.log"))
    log.replace([])
    log.append(RECORD, sync=False)
    log.close()
    files = NotedCalls()
    log = LogFile(str(tmp_path / "a.log"), files)
    assert log.records == [RECORD]
    assert files.calls[-4:] == ["fsync", "open", "fsync", "close"], "the file, and its name in the folder"
    log.close()


@pytest.mark.parametrize("refused", ["pwrite", "fdatasync"])
def test_a_log_takes_no_record_after_a_failure_until_it_is_opened_again(tmp_path: Path, refused: str) -> None:
    files = NotedCalls()
    log = LogFile(str(tmp_path / "a.log"), files)
    log.replace([RECORD])
    files.refused = {refused}
    with pytest.raises(OSError, match="no space"):
        log.append(RECORD)
    files.refused = set()
    with pytest.raises(ConnectorFault, match=r"a.log: an earlier record could not be written; start again"):
        log.append(SessionEnded(2.0))
    log.close()
    log = LogFile(str(tmp_path / "a.log"))
    log.append(SessionEnded(2.0))
    log.close()
    assert LogFile(str(tmp_path / "a.log")).records[-1] == SessionEnded(2.0)
