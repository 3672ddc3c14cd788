"""Claims: which readers of a source count as alive, and the index of each, by locks and reports.

Planted bugs must be found by the tests that pass without them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.commands.status import read
from penstock.remote import SESSION, Claim, MemberClaim, claims
from tests.harness.planting import Bug
from tests.waiting import PATIENCE

SOURCE = "users=kafka:users"
_OTHER = """
import sys
from penstock.remote import MemberClaim

own = MemberClaim(sys.argv[1], sys.argv[2], "g")
assert own.take() is None
own.say("reading", None, 0)
print("here", flush=True)
sys.stdin.read()
"""


class Processes:
    """A store's folder, and the clock of its readers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 100.0

    def member(self, says: bool = True) -> MemberClaim:
        """Add a member in this process."""
        own = MemberClaim(str(self.folder), SOURCE, "g", lambda: self.now)
        assert own.take() is None
        if says:
            own.say("reading", None, 0)
        return own


@contextmanager
def other(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a member in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(folder), SOURCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        try:
            yield child
        finally:
            child.kill()


def who_ends_leaves_its_place(folder: Path) -> None:
    workdir = Processes(folder)
    first, second, third = (workdir.member() for _ in range(3))
    assert [one.place() for one in (first, second, third)] == [(0, 3), (1, 3), (2, 3)]
    first.release()
    assert [one.place() for one in (second, third)] == [(0, 2), (1, 2)]
    again = workdir.member()
    assert [one.place() for one in (again, second, third)] == [(0, 3), (1, 3), (2, 3)]
    second.end("ended")
    assert [one.place() for one in (again, third)] == [(0, 2), (1, 2)]
    assert sorted(one["state"] for one in claims(str(folder))) == ["ended", "reading", "reading"]
    second.say("paused", None, 0)
    assert [one.place() for one in (again, third)] == [(0, 2), (1, 2)], "that was its last word"


def who_has_not_begun_has_no_place_yet(folder: Path) -> None:
    workdir = Processes(folder)
    first, second = workdir.member(), workdir.member(says=False)
    assert (first.place(), second.place()) == ((0, 1), (1, 2))
    second.say("reading", None, 0)
    assert first.place() == (0, 2)


def who_is_silent_has_no_place_until_it_speaks(folder: Path) -> None:
    workdir = Processes(folder)
    first, second = workdir.member(), workdir.member()
    workdir.now += SESSION - 1
    second.say("reading", None, 0)
    assert [one.place() for one in (first, second)] == [(0, 2), (1, 2)]
    workdir.now += 1
    assert [one.place() for one in (first, second)] == [(0, 2), (0, 1)], "it counts itself as ever"
    first.say("reading", None, 0)
    assert [one.place() for one in (first, second)] == [(0, 2), (1, 2)]
    workdir.now += SESSION
    second.beat()
    assert [one.place() for one in (first, second)] == [(0, 2), (0, 1)]
    second.end("ended")
    workdir.now += 1
    second.beat()
    assert first.place() == (0, 1)


def who_is_stopped_has_no_place_until_it_goes_on(folder: Path) -> None:
    with other(folder) as child:
        own = MemberClaim(str(folder), SOURCE, "g")
        assert own.take() is None
        own.say("reading", None, 0)
        assert own.place() == (1, 2)
        for sent, seen, place in (
            (signal.SIGSTOP, os.WSTOPPED, (0, 1)),
            (signal.SIGCONT, os.WCONTINUED, (1, 2)),
        ):
            child.send_signal(sent)
            os.waitid(os.P_PID, child.pid, seen)
            assert own.place() == place
            with ps.open(ps.App("shop"), None) as engine:
                states = {one["pid"]: one["state"] for one in read(engine, str(folder), False)["reading"]}
            assert states[child.pid] == ("stopped" if sent == signal.SIGSTOP else "reading")


def who_was_killed_has_no_place(folder: Path) -> None:
    with other(folder) as first, other(folder) as second:
        own = MemberClaim(str(folder), SOURCE, "g")
        assert own.take() is None
        assert own.place() == (2, 3)
        for child, place in ((first, (1, 2)), (second, (0, 1))):
            child.kill()
            child.wait(PATIENCE)
            assert own.place() == place


STORIES = [
    who_ends_leaves_its_place,
    who_has_not_begun_has_no_place_yet,
    who_is_silent_has_no_place_until_it_speaks,
    who_is_stopped_has_no_place_until_it_goes_on,
    who_was_killed_has_no_place,
]

_LIVES = "remote.source_claims:MemberClaim._lives"
_PLACE = "remote.source_claims:MemberClaim.place"
BUGS = [
    Bug("who was killed keeps its place", _LIVES, "if _is_free(file):", "if False:"),
    Bug("who is stopped keeps its place", _LIVES, 'not is_stopped(about["pid"])', "True"),
    Bug("who hangs keeps its place", _LIVES, "self._clock() - about[_AT] < SESSION", "True"),
    Bug("who has not begun has a place", _LIVES, "_AT in about", "not about or _AT in about"),
    Bug("who has ended has a place", "remote.source_claims:Claim.end", "if self._word:", "if False:"),
    Bug("who has ended says more", "remote.source_claims:Claim.end", "self._ended = True", "pass"),
    Bug("who has ended gives signs of life", "remote.source_claims:Claim.beat", "not self._ended", "True"),
    Bug("places are numbers of files", _PLACE, "living.index(self._number)", "self._number"),
    Bug("two are at one place for ever", _PLACE, "living.index(self._number)", "0"),
    Bug("who is silent doesn't count itself", _PLACE, "number == self._number or ", ""),
]


@pytest.mark.parametrize("story", STORIES)
def test_who_lives(story: Callable[[Path], None], tmp_path: Path) -> None:
    story(tmp_path)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        _search(tmp_path)


def _search(folder: Path) -> None:
    for story in STORIES:
        story(folder / story.__name__)


def test_the_end_of_a_longer_word_is_no_part_of_what_is_said(tmp_path: Path) -> None:
    own = Processes(tmp_path).member()
    (file,) = (tmp_path / "reading").glob("*-0")
    with file.open("a") as after:
        after.write('ng", "lag": 12}')
    assert [one["state"] for one in claims(str(tmp_path))] == ["reading"]
    assert own.place() == (0, 1)


def test_a_claim_is_one_process_s_or_one_group_s(tmp_path: Path) -> None:
    workdir = Processes(tmp_path)
    first, second = workdir.member(), workdir.member()
    assert MemberClaim(str(tmp_path), SOURCE, "other").take() == "group g"
    assert Claim(str(tmp_path), SOURCE).take() == "group g"
    first.release()
    assert MemberClaim(str(tmp_path), SOURCE, "other").take() == "group g"
    second.release()
    alone = Claim(str(tmp_path), SOURCE)
    assert alone.take() is None
    alone.say("reading", 3, 0)
    assert [(one["state"], one["lag"]) for one in claims(str(tmp_path))] == [("reading", 3)]
    assert MemberClaim(str(tmp_path), SOURCE, "g").take() == f"process {os.getpid()}"
    alone.end("ended")
    assert [one["state"] for one in claims(str(tmp_path))] == ["ended"]
    assert Claim(str(tmp_path), SOURCE).take() == f"process {os.getpid()}", "it has the right to it still"
