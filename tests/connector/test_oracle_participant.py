"""The participant against its oracle: random histories with kills and reconnects, and cuts at every byte."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connector.memory_sink import MemorySink
from tests.connector.participant_histories import History
from tests.connector.reference.frames import encoded
from tests.connector.reference.judgement import differences, judged
from tests.connector.reference.sink.cases import CASES, Case, introduced, phase1
from tests.connector.reference.sink.cases import data as bytes_at


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_a_history_has_the_replies_and_bytes_of_the_oracle(rng: Random, steps: int) -> None:
    History(rng).run(steps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_has_the_outcome_of_the_oracle(case: Case) -> None:
    found = MemorySink(refused=case.refused).play(case.history)
    assert differences(case.history, judged(case.history, case.refused), found) == []


def test_a_round_is_the_same_when_cut_at_every_byte() -> None:
    frames = [
        *introduced(1),
        *introduced(1, bytes_at(0, b"hello\n"), phase1("t1", (1, 0, 6)), ("phase2", "t1", True))[3:],
    ]
    stream = b"".join(encoded(frame) for _, frame in frames)
    whole = MemorySink().receive(1, stream)
    assert whole
    for cut in range(len(stream) + 1):
        sink = MemorySink()
        assert sink.receive(1, stream[:cut]) + sink.receive(1, stream[cut:]) == whole
        assert sink.output.published == {"w1": b"hello\n"}
    one_by_one = MemorySink(pieces=lambda data: [data[at : at + 1] for at in range(len(data))])
    assert one_by_one.receive(1, stream) == whole


def test_a_connection_that_ends_at_every_byte_keeps_only_whole_frames() -> None:
    frames = introduced(1, bytes_at(0, b"hello\n"), phase1("t1", (1, 0, 6)), ("phase2", "t1", True))
    raw = [encoded(frame) for _, frame in frames]
    for cut in range(len(b"".join(raw)) + 1):
        sink = MemorySink()
        sink.receive(1, b"".join(raw)[:cut])
        sink.lost(1)
        whole = sum(len(b"".join(raw[: n + 1])) <= cut for n in range(len(raw)))
        state = sink.state("w1")
        assert (state.vote is not None) == (whole == 5)
        assert state.committed == (6 if whole == 6 else 0)
