"""The audit log: whole lines of several writers, rotation, and no secret."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from penstock.serve.operations.audit_log import AuditLog


def lines_of(path: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_line_has_name_object_and_outcome(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit"), clock=lambda: 0.0)
    log.add("board", "Restate", "failed", {"name": "revenue", "group": b"\xff" * 3}, "17", "e" * 1000)
    [line] = lines_of(log.path)
    assert line.pop("error") == "e" * 500
    assert line == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "by": "board",
        "operation": "Restate",
        "id": "17",
        "about": {"name": "revenue", "group": "b'\\xff\\xff\\xff'"},
        "outcome": "failed",
    }
    assert os.stat(log.path).st_mode & 0o777 == 0o600


def test_a_full_log_is_renamed_and_no_line_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "audit")

    def write(first: int) -> None:
        own = AuditLog(path, most=2_000)
        for number in range(first, first + 10):
            own.add("board", "Check", "done", {}, str(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logs = [path, *(f"{path}.{number}" for number in range(1, 5))]
    found = [line["id"] for log in logs if os.path.exists(log) for line in lines_of(log)]
    assert sorted(map(str, found)) == sorted(map(str, range(40)))
    assert all(os.path.getsize(log) <= 2_000 for log in logs if os.path.exists(log))
    assert os.path.exists(f"{path}.1")


def test_five_logs_are_kept(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit"), most=1)
    for number in range(8):
        log.add("board", "Check", "done", {}, str(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit", "audit.1", "audit.2", "audit.3", "audit.4"]
    assert [line["id"] for line in lines_of(f"{log.path}.4")] == ["3"]
