"""The oracle judges the recorded transcripts, and mistakes that are planted in the oracle are found by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.connector.reference.judgement import agree
from tests.connector.reference.oracle import Oracle, Worker
from tests.connector.reference.sink import transcripts
from tests.connector.reference.sink.cases import CASES, Case
from tests.connector.reference.sink.departures import Positions
from tests.connector.reference.sink.transcripts import Transcript

RECORDED = transcripts.read()
BY_NAME = {case.name: case for case in CASES}


def disagreements(case: Case, transcript: Transcript, oracle: Oracle) -> Iterator[tuple[int, str]]:
    """Yield each step where a transcript differs from the oracle. The step after the last one is the output."""
    positions = Positions()
    for at, ((connection, frame), answer) in enumerate(zip(transcript.history(), transcript.answers())):
        replies = positions.step(oracle, connection, frame)
        name = oracle.active.get(connection)
        found = oracle.workers[name].open if name else None
        if not agree(replies, answer.replies):
            yield at, f"{frame!r}: expected {replies!r}, not {answer.replies!r}"
        elif answer.open is not None and answer.open != ([found[0]] if found else []):
            yield at, f"{frame!r}: expected {found!r} to be open, not {answer.open!r}"
    for name, files in transcript.workers.items():
        ends = [record[2] for record in files["log"] if record[0] == "2-ok"]
        committed = files["output"].encode()[: ends[-1] if ends else 0]
        worker = oracle.workers.get(name) or Worker()
        expected = worker.data[: worker.committed], [data for left, data in oracle.left if left == name]
        if expected != (committed, [left.encode() for left in files["left"]]):
            yield len(transcript.steps), f"{name}: expected {expected!r}, not {files!r}"


def wrong(name: str, make: Callable[[Case], Oracle] = lambda case: Oracle(case.refused)) -> str | None:
    """Return the first disagreement of a case that its tables don't explain, or None."""
    case = BY_NAME[name]
    for at, text in disagreements(case, RECORDED[name], make(case)):
        if case.differs is None or at < case.differs:
            return f"step {at}, {text}"
        if at == case.differs:
            return None
    return None if case.differs is None else f"step {case.differs} agrees, although the tables differ"


def test_each_case_has_its_transcript() -> None:
    assert list(RECORDED) == [case.name for case in CASES]
    for case in CASES:
        assert RECORDED[case.name].history() == case.history
        assert RECORDED[case.name].rule == case.rule


@pytest.mark.parametrize("name", RECORDED)
def test_a_transcript_agrees_with_the_oracle(name: str) -> None:
    assert wrong(name) is None, wrong(name)
