"""The source client of the reference feeds a store: a cut of its connection loses nothing and repeats nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.connector.reference.frames import Frame
from tests.connector.reference.sink.process import environment, interpreter
from tests.connector.sockets.cutting_relay import Cut, CuttingRelay
from tests.harness.planting import Bug
from tests.spout.wallaroo_worker import COOKIE, Store, expected, found, message
from tests.waiting import PATIENCE

MESSAGES = 400
PROGRAM = str(Path(__file__).with_name("source_program.py"))


def send(folder: Path, cut: Callable[[Frame], Cut | None]) -> tuple[CuttingRelay, list[str]]:
    """Send all messages through a relay, and judge the store. Return the relay and the output of the client."""
    sent = [message(n) for n in range(MESSAGES)]
    folder.mkdir(exist_ok=True)
    (folder / "messages").write_bytes(b"".join(body + b"\n" for body in sent))
    with (
        Store(folder / "store", None, scheme="wallaroo+source") as store,
        CuttingRelay(store.address, cut) as relay,
    ):
        command = [interpreter(), "-W", "ignore", PROGRAM, str(relay.address[1]), COOKIE, str(folder / "messages")]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        assert found(store.engine) == expected(sent)
    return relay, done.stdout.splitlines()


def cut_after(folder: Path, word: str, number: int) -> list[str]:
    """Cut the connection after a counted frame of a kind."""
    seen = 0

    def cut(frame: Frame) -> Cut | None:
        nonlocal seen
        seen += frame[0] == word
        return Cut.AFTER if seen == number else None

    relay, said = send(folder, cut)
    assert relay.cuts == 1
    return said


def test_the_messages_of_a_source_are_stored_and_acknowledged(tmp_path: Path) -> None:
    relay, said = send(tmp_path, lambda frame: None)
    assert said[-1] == f"acked {MESSAGES}"
    assert [frame[0] for frame in relay.frames].count("message") == MESSAGES


@pytest.mark.parametrize(("word", "number"), [("notify_ack", 1), ("message", 3), ("message", 200), ("ack", 1)])
def test_a_cut_loses_nothing_and_repeats_nothing(tmp_path: Path, word: str, number: int) -> None:
    said = cut_after(tmp_path, word, number)
    assert any(line.startswith("reset") for line in said)
    assert said[-1] == f"acked {MESSAGES}"


BUG = Bug(
    "the point is not stored",
    "spout.wallaroo_source_spout:WallarooSourceSpout._take",
    "messages[-1].message + 1",
    "self._offsets[stream]",
)


def test_a_planted_bug_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BUG.plant(monkeypatch)
    with pytest.raises(AssertionError):
        cut_after(tmp_path, "ack", 1)
