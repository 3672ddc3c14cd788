"""Bugs planted in the roles, the session and the codec: random histories or a pair of both roles find each of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from penstock.connector import ProtocolFault
from tests.connector.memory_pair import Pair
from tests.connector.memory_sink import Kills
from tests.connector.participant_histories import History
from tests.connector.test_agreement_roles import judged, points
from tests.harness.planting import Bug

_SEEDS, _STEPS = 40, 120
PARTICIPANT = "connector.participant:Participant."
STATE = "connector.participant_state:LoggedState."
COORDINATOR = "connector.coordinator:Coordinator."


def histories() -> None:
    """Run histories of the participant."""
    for seed in range(_SEEDS):
        History(Random(seed)).run(_STEPS)


def pairs() -> None:
    """Run both roles with a kill at each point, with lost connections, and with abort votes."""
    for at in range(points()):
        judged(Pair(Kills(at)))
    for hold in range(1, 12):
        judged(Pair(Kills(), frozenset({"app-w-w1-id-7:c_id=2"}), hold))


IN_HISTORIES = [
    Bug("a duplicate is appended", PARTICIPANT + "message", "if frame.message < received:", "if False:"),
    Bug(
        "bytes after a gap are appended",
        PARTICIPANT + "message",
        'self.state.force_abort(f"a gap: offset {frame.message}, and {received} bytes are received")\n        return',
        "pass",
    ),
    Bug("a gap is forgotten", PARTICIPANT + "phase_1", "and not self.state.forced", ""),
    Bug("data needs no notify", PARTICIPANT + "_check_stream", "or not self._notified", "and False"),
    Bug("a range may start anywhere", PARTICIPANT + "_is_valid", "start == self.state.committed and", ""),
    Bug("a range may end anywhere", PARTICIPANT + "_is_valid", "start <= end <= self.state.received", "start <= end"),
    Bug("two ranges are voted commit", PARTICIPANT + "_is_valid", "len(frame.ranges) != 1", "not frame.ranges"),
    Bug("a second transaction replaces the first", PARTICIPANT + "phase_1", "if vote is None:", "if True:"),
    Bug(
        "a repeated question is voted abort",
        PARTICIPANT + "phase_1",
        "vote == OpenVote(frame.transaction, frame.ranges, commit=True)",
        "False",
    ),
    Bug("any decision ends the vote", PARTICIPANT + "phase_2", "or vote.transaction != frame.transaction", ""),
    Bug("an abort vote is committed", PARTICIPANT + "phase_2", "elif vote.commit:", "elif True:"),
    Bug(
        "the list omits an abort vote",
        PARTICIPANT + "list_uncommitted",
        "if vote is not None",
        "if vote and vote.commit",
    ),
    Bug("a session keeps the tail of the last one", STATE + "restore", "self.received = self.prepared", "pass"),
    Bug("a rollback keeps the tail", STATE + "rollback", "self.restore()", "pass"),
    Bug(
        "a commit takes the tail",
        STATE + "commit",
        "self._clock(), vote.transaction, vote.end",
        "self._clock(), vote.transaction, self.received",
    ),
    Bug(
        "a program's veto is ignored",
        STATE + "prepare",
        "kind = CommitVote if commit",
        "kind = CommitVote if vote.commit",
    ),
    Bug(
        "an abort vote keeps the forced abort",
        "connector.log_records:LogSummary.apply",
        "self.forced = False",
        "pass",
    ),
    Bug(
        "an abort vote prepares its bytes",
        "connector.log_records:LogSummary.prepared.fget",
        "and self.vote.commit",
        "",
    ),
    Bug(
        "a worker with a session is accepted again",
        "connector.participant_registry:ParticipantRegistry.answer",
        "if worker in self._active:",
        "if False:",
    ),
    Bug(
        "a worker with a session is retired",
        "connector.participant_registry:ParticipantRegistry.left",
        "if worker not in self._active",
        "",
    ),
    Bug(
        "frames do not wait for the approval",
        "connector.session:Session._run",
        "and self.state is not SessionState.APPROVAL:",
        ":",
    ),
    Bug(
        "bytes of a cut frame are lost",
        "connector.frame_splitter:FrameSplitter._release",
        "del self._data[: self._at]",
        "self._data.clear()",
    ),
]
IN_PAIRS = [
    Bug("the vote is not stored", COORDINATOR + "prepare", "self._state.prepare(", "("),
    Bug("the decision follows phase 2 only in memory", COORDINATOR + "decide", "self._state.decide(True)", "pass"),
    Bug("an open transaction is committed", COORDINATOR + "settle", "self._state.is_committed(transaction)", "True"),
    Bug("an open transaction is aborted", COORDINATOR + "settle", "self._state.is_committed(transaction)", "False"),
    Bug("a session continues at 0", COORDINATOR + "start", "self.offset = self._state.committed", "self.offset = 0"),
    Bug("the offset stays", COORDINATOR + "send", "self.offset += len(command.body)", "pass"),
    Bug(
        "the log commits first",
        STATE + "commit",
        "self._output.commit(",
        "self._log.append(CommitDone(0.0, vote.transaction, vote.end))\n    self._output.commit(",
    ),
    Bug("an abort vote is taken for a commit", COORDINATOR + "vote", "if frame.commit else self._abort()", ""),
]


@pytest.mark.parametrize(
    ("bug", "trial"),
    [*((bug, histories) for bug in IN_HISTORIES), *((bug, pairs) for bug in IN_PAIRS)],
    ids=lambda value: value.name if isinstance(value, Bug) else value.__name__,
)
def test_a_planted_bug_is_found(bug: Bug, trial: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ProtocolFault, KeyError, ValueError, AttributeError, TypeError)):
        trial()


def test_without_a_bug_the_trials_pass() -> None:
    histories()
    pairs()
