"""Judge a history of frames: its outcome by the oracle, and the differences of another participant from it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.connector.reference.frames import Frame
from tests.connector.reference.oracle import Oracle

Step = tuple[int, Frame]


@dataclass
class Outcome:
    """The result of a history: one list of replies for each step, and the state after the last one."""

    replies: list[list[Frame]]
    committed: dict[str, bytes]
    open: dict[str, list[str]]


def outcome(oracle: Oracle, history: list[Step]) -> Outcome:
    """Run a history through an oracle."""
    replies = [oracle.step(connection, frame) for connection, frame in history]
    known = sorted(oracle.workers.items())
    return Outcome(
        replies,
        {name: worker.data[: worker.committed] for name, worker in known},
        {name: [worker.open[0]] if worker.open else [] for name, worker in known},
    )


def judged(history: list[Step], refused: frozenset[str] = frozenset()) -> Outcome:
    """Return the outcome that a history must have."""
    return outcome(Oracle(refused), history)


def agree(expected: list[Frame], actual: list[Frame]) -> bool:
    """Return true if replies are the expected ones. An error needs only a part of the text."""
    return len(expected) == len(actual) and all(
        str(one[1]) in str(other[1]) if one[0] == other[0] == "error" else one == other
        for one, other in zip(expected, actual)
    )


def differences(history: list[Step], expected: Outcome, actual: Outcome) -> list[str]:
    """Return the differences between two outcomes of a history, each in one line."""
    found = [
        f"step {number}, {connection} {frame!r}: expected {wanted!r}, not {got!r}"
        for number, ((connection, frame), wanted, got) in enumerate(zip(history, expected.replies, actual.replies))
        if not agree(wanted, got)
    ]
    for name in sorted(expected.committed.keys() | actual.committed.keys()):
        for what, by, of in (
            ("committed", expected.committed, actual.committed),
            ("open", expected.open, actual.open),
        ):
            if (by.get(name) or None) != (of.get(name) or None):
                found.append(f"{what} of {name}: expected {by.get(name)!r}, not {of.get(name)!r}")
    return found
