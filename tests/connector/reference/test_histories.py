"""Drawn histories: the offsets of the oracle keep their order, and each kind of step occurs."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from tests.connector.reference.histories import histories, refused
from tests.connector.reference.judgement import Step
from tests.connector.reference.oracle import Oracle, Worker

SEEN: Counter[str] = Counter()


def _copies(oracle: Oracle) -> dict[str, Worker]:
    return {name: Worker(**vars(worker)) for name, worker in oracle.workers.items()}


def _may_go_back(before: Worker, after: Worker, kind: str) -> bool:
    """Return true if a step may truncate: a hello cuts bytes without a vote, and an abort cuts all."""
    return kind == "hello" or (kind == "phase2" and before.open is not None and after.open is None)


@given(histories())
def keep_their_order(history: list[Step]) -> None:
    oracle = Oracle(refused(history))
    for connection, frame in history:
        before = _copies(oracle)
        replies = oracle.step(connection, frame)
        SEEN.update([frame[0], *(f"{frame[0]} → {' '.join(map(str, reply[::2]))}" for reply in replies)])
        for name, worker in oracle.workers.items():
            assert 0 <= worker.committed <= worker.prepared <= worker.received == len(worker.data)
            was = before.get(name, Worker())
            assert worker.committed >= was.committed
            assert worker.data[: was.committed] == was.data[: was.committed]
            if not _may_go_back(was, worker, frame[0]):
                assert worker.received >= was.received
                assert worker.prepared >= was.prepared
            if frame[0] != "phase2":
                assert worker.data[: was.prepared] == was.data[: was.prepared]


def test_committed_prepared_and_received_keep_their_order() -> None:
    """Each kind of step is drawn by the way."""
    SEEN.clear()
    keep_their_order()
    usual = ["message", "phase1", "phase2", "cut", "kill", "workers_left", "hello", "eos", "list"]
    assert [kind for kind in usual if SEEN[kind] < 3] == []
    votes = ["phase1 → vote True", "phase1 → vote False", "message → error", "phase2 → error", "hello → error"]
    assert [vote for vote in votes if not SEEN[vote]] == []
    assert len([kind for kind in SEEN if kind.endswith("→ closed")]) > 7, SEEN
