"""A coordinator and a participant back to back: kills and lost connections lose and double nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connector.memory_pair import BODIES, Pair
from tests.connector.memory_sink import Kills

WHOLE = b"".join(BODIES)


def judged(pair: Pair) -> None:
    """Run a pair, and check that the sink published each byte once."""
    pair.run()
    state = pair.sink.state("w1")
    assert pair.published == WHOLE
    assert (state.committed, state.prepared, state.vote) == (len(WHOLE), len(WHOLE), None)
    assert pair.state.committed == len(WHOLE)
    names = [name for name, _ in pair.state.decided]
    assert len(set(names)) == len(names), "each transaction is decided once"


def points() -> int:
    """Return the number of points at which a run may be killed."""
    pair = Pair(Kills())
    judged(pair)
    assert pair.sessions == 1
    return pair.kills.points


@pytest.mark.parametrize("at", range(points()))
def test_a_kill_at_a_durable_step_loses_and_doubles_nothing(at: int) -> None:
    pair = Pair(Kills(at))
    judged(pair)
    assert pair.killed == 1


@pytest.mark.parametrize("hold", range(1, 12))
def test_a_lost_connection_loses_and_doubles_nothing(hold: int) -> None:
    judged(Pair(Kills(), hold=hold))


@given(st.integers(0, 60), st.integers(1, 12), st.sets(st.integers(1, 6), max_size=3))
def test_kills_cuts_and_abort_votes_together(at: int, hold: int, refused: set[int]) -> None:
    judged(Pair(Kills(at), frozenset(f"app-w-w1-id-7:c_id={n}" for n in refused), hold))
