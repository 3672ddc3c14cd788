"""The log of a source's messages: ids, cuts at any byte, and dropped messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sink import wallaroo_source_log
from penstock.sink.wallaroo_source_log import MessageLog


def opened(path: Path) -> MessageLog:
    return MessageLog(str(path / "connector" / "x.log"), b"c1/view")


def test_ids_and_the_position_survive(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert (log.position, log.first, log.last) == (None, 1, 0)
    assert log.add([b"a", b"b"], 7) == [(1, b"a"), (2, b"b")]
    log.close()
    log = opened(tmp_path)
    assert (log.position, log.last, log.after(1)) == (7, 2, [(2, b"b")])
    assert log.add([b"c"], (8, 9)) == [(3, b"c")]
    log.close()
    log = opened(tmp_path)
    assert (log.position, log.after(0)) == ((8, 9), [(1, b"a"), (2, b"b"), (3, b"c")])
    log.close()


def test_a_log_that_is_cut_anywhere_has_whole_positions(tmp_path: Path) -> None:
    log = opened(tmp_path)
    path = tmp_path / "connector" / "x.log"
    states: list[tuple[int, int | None, int]] = [(path.stat().st_size, None, 0)]
    for position, bodies in ((3, [b"a", b"b"]), (5, [b"c"])):
        log.add(bodies, position)
        states.append((path.stat().st_size, position, log.last))
    log.close()
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        log = opened(tmp_path)
        reached = [(position, last) for size, position, last in states if size <= cut]
        assert (log.position, log.last) == (reached[-1] if reached else (None, 0)), cut
        assert log.add([b"d"], 9) == [(log.last, b"d")]
        assert len(log.after(0)) == log.last
        log.close()


def test_acknowledged_messages_of_a_long_log_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wallaroo_source_log, "_LONG", 100)
    log = opened(tmp_path)
    log.drop(0)
    assert log.first == 1
    log.add([b"a" * 50, b"b" * 50, b"c"], 7)
    log.drop(2)
    assert (log.first, log.last, log.after(0)) == (3, 3, [(3, b"c")])
    log.add([b"d" * 500], 8)
    log.drop(4)
    log.close()
    log = opened(tmp_path)
    assert (log.position, log.first, log.last, log.after(0)) == (8, 5, 4, [])
    assert log.add([b"e"], 9) == [(5, b"e")]
    log.close()


def test_a_position_without_changes_is_held(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.hold(4)
    log.close()
    log = opened(tmp_path)
    assert (log.position, log.last) == (4, 0)
    log.close()
