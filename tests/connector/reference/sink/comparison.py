"""Compare the reference sink with the oracle on one history, step by step.

The comparison ends where the tables say that the two part: at a known departure, or at a fault of the worker. Up to
there replies, open transactions and committed bytes must agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.connector.reference.driver import Driver
from tests.connector.reference.histories import refused
from tests.connector.reference.judgement import Step, agree
from tests.connector.reference.oracle import Oracle, Worker
from tests.connector.reference.sink.departures import Positions, departs
from tests.connector.reference.sink.process import ReferenceSink

FAULT = 66  # the status with which the reference sink ends at a fault of a worker


@dataclass
class Comparison:
    """The number of steps that agreed, and the reason of the end."""

    steps: int
    end: str


class Disagreement(AssertionError):
    """The reference sink and the oracle differ where the tables know of no difference."""


def compared(history: list[Step], sink: ReferenceSink, pieces: int | None = None) -> Comparison:
    """Play a history against a sink that has just started, and raise `Disagreement` at the first difference."""
    oracle, positions, driver = Oracle(refused(history)), Positions(), Driver(sink, pieces)
    try:
        found = _compared(history, oracle, positions, driver)
    finally:
        driver.close()
    for name in {frame[4] for _, frame in history[: found.steps] if frame[0] == "hello"}:
        worker = oracle.workers.get(name, Worker())
        expected, actual = worker.data[: worker.committed], sink.committed(name)
        if expected != actual:
            raise Disagreement(f"{name}: expected {expected!r} to be committed, not {actual!r}\n{history!r}")
    return found


def _compared(history: list[Step], oracle: Oracle, positions: Positions, driver: Driver) -> Comparison:
    for at, (connection, frame) in enumerate(history):
        departure = departs(oracle, connection, frame)
        if departure is not None:
            return Comparison(at, f"{frame[0]}: the reference sink {departure}")
        replies = positions.step(oracle, connection, frame)
        answer = driver.step(connection, frame)
        if replies[-1:] == [("closed",)] and answer.status == FAULT:
            return Comparison(at, f"{frame[0]}: a fault, which ends the sink")
        name = oracle.active.get(connection)
        opened = oracle.workers[name].open if name else None
        if not agree(replies, answer.replies) or (name and answer.open != ([opened[0]] if opened else [])):
            raise Disagreement(
                f"step {at}, {connection} {frame!r}: expected {replies!r} with {opened!r} open, "
                f"not {answer.replies!r} with {answer.open!r}, status {answer.status}\n{history!r}"
            )
    return Comparison(len(history), "all steps")
