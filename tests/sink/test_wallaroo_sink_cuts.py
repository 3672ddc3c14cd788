"""A view is sent to a sink over TCP: cuts at each frame, and refused votes, lose nothing and repeat nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from penstock.sink import SinkTaken, WallarooSink
from penstock.sink.change_lines import change_line
from tests.connector.reference.frames import COOKIE, Frame
from tests.connector.sockets.cutting_relay import Cut, CuttingRelay
from tests.connector.sockets.listening_sink import ListeningSink
from tests.harness.planting import Bug, assert_found
from tests.sink.test_crash_wallaroo_sink import VIEW, Feed

LAST = 4  # positions, with three transactions
SECOND = "by%20name-w-w1-id-1:c_id=2"


def send(folder: Path, cut: Callable[[Frame], Cut | None], refused: frozenset[str] = frozenset()) -> CuttingRelay:
    """Send all changes through a relay, and judge the output of the sink."""
    peer = ListeningSink(folder / "sink", refused)
    try:
        with CuttingRelay(peer.address, cut) as relay:
            sink = WallarooSink("wallaroo://there", relay.address, COOKIE, "w1", VIEW, "value", json.dumps)
            sink.folder = str(folder)
            try:
                for at, changes in Feed.after(sink.begin() or 0, LAST):
                    sink.write(changes)
                    sink.holds(at)
            finally:
                sink.close()
    finally:
        peer.stop()
    changes = [change for _, own in Feed.after(0, LAST) for change in own]
    assert peer.committed("w1").decode() == "".join(f"{json.dumps(change_line(one, 'value'))}\n" for one in changes)
    return relay


def cut_at(folder: Path, boundary: int) -> int:
    """Cut the connection at a boundary: before the first frame, or after so many. Return the number of cuts."""
    numbers = count(1)

    def cut(_: Frame) -> Cut | None:
        number = next(numbers)
        return Cut.BEFORE if number > boundary else Cut.AFTER if number == boundary else None

    return send(folder, cut).cuts


def test_a_cut_at_each_boundary_of_a_frame_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    frames = len(send(tmp_path / "whole", lambda frame: None).frames)
    assert frames > 15
    assert all(cut_at(tmp_path / str(boundary), boundary) == 1 for boundary in range(frames))


@pytest.mark.parametrize(
    ("vote", "before", "after", "commits"),
    [
        (False, False, False, False),
        (False, True, False, False),
        (False, False, True, False),
        (True, False, False, True),
        (True, True, False, False),
        (True, False, True, True),
    ],
)
def test_an_abort_rule_has_its_outcome(tmp_path: Path, vote: bool, before: bool, after: bool, commits: bool) -> None:
    """The connection may end before or after the reply about the second transaction."""

    def cut(frame: Frame) -> Cut | None:
        return (Cut.BEFORE if before else Cut.AFTER if after else None) if frame == ("vote", SECOND, vote) else None

    relay = send(tmp_path, cut, frozenset() if vote else frozenset({SECOND}))
    assert relay.cuts == (before or after)
    assert (("phase2", SECOND, True) in relay.frames) == commits


BUGS = [
    Bug(
        "an open transaction is aborted",
        "connector.coordinator:Coordinator.settle",
        "self._state.is_committed(transaction)",
        "False",
    ),
    Bug(
        "a transaction is decided by its number alone",
        "sink.wallaroo_decisions:SinkLog.is_committed",
        "self._last == transaction",
        "True",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(cut_at, tmp_path, range(8, 20), SinkTaken)
