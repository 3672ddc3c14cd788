"""A view that is sent to the live reference sink: kills of either side lose nothing and repeat nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.connector import ConnectorFault
from penstock.sink import SinkTaken, WallarooSink
from penstock.sink.change_lines import change_line
from tests.connector.reference.frames import COOKIE
from tests.connector.reference.log_rules import violations
from tests.connector.reference.sink.process import ReferenceSink
from tests.harness.planting import Bug
from tests.sink.test_crash_wallaroo_sink import BUGS, VIEW, Feed, abandon, kill_sink_at
from tests.spout.wallaroo_worker import Killed

LAST = 6


def opened(folder: Path, reference: ReferenceSink) -> WallarooSink:
    sink = WallarooSink("wallaroo://there", reference.address, COOKIE, "w1", VIEW, "value", json.dumps)
    sink.folder = str(folder)
    sink.stopped = lambda: True  # a reference sink that ended itself is an error, and not waited for
    return sink


def send(sink: WallarooSink) -> None:
    for at, changes in Feed.after(sink.begin() or 0, LAST):
        sink.write(changes)
        sink.holds(at)


def struck_at(folder: Path, number: int, both: bool) -> bool:
    """Send all changes with a kill at a counted place, and judge the sink. Return whether the place was reached."""
    expected = [json.dumps(change_line(one, "value")) + "\n" for _, changes in Feed.after(0, LAST) for one in changes]
    killed = False
    with ReferenceSink(folder / "reference") as reference:
        sink = opened(folder, reference)
        try:
            with kill_sink_at(number):
                send(sink)
        except Killed:
            killed = True
        abandon(sink)
        if both:
            reference.restart()
        sink = opened(folder, reference)
        send(sink)
        sink.close()
        assert reference.committed("w1").decode() == "".join(expected)
        assert violations(reference.log("w1")) == []
    return killed


def kills(folder: Path, both: bool) -> int:
    """Try the first twelve places, and return the number of kills."""
    return sum(struck_at(folder / str(number), number, both) for number in range(1, 13))


@pytest.mark.parametrize("both", [False, True], ids=["the view", "both sides"])
def test_a_kill_loses_nothing_and_repeats_nothing(tmp_path: Path, both: bool) -> None:
    """The places are before and after each record of the log, and while the vote is on its way."""
    assert kills(tmp_path, both) == 12


# The first bug leaves out the writes of the log, where these kills strike.
@pytest.mark.parametrize("bug", BUGS[1:], ids=lambda bug: bug.name)
def test_planted_bugs_are_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ConnectorFault, SinkTaken)):
        kills(tmp_path, False)


def test_a_refused_transaction_is_sent_again(tmp_path: Path) -> None:
    with ReferenceSink(tmp_path / "reference", frozenset({"by%20name-w-w1-id-1:c_id=1"})) as reference:
        sink = opened(tmp_path, reference)
        send(sink)
        sink.close()
        assert reference.committed("w1").count(b"\n") == sum(len(changes) for _, changes in Feed.after(0, LAST))
        assert [record[0] for record in reference.log("w1")].count("1-rollback") == 1
        assert violations(reference.log("w1")) == []
