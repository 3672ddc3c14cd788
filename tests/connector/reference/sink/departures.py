"""Known departures of the reference sink from the oracle, by the tables of the protocol.

`departs` tells which frames part the two for good. Each other fault of the worker ends the reference sink with status
66. `Positions` predicts the offsets in its answers to notify and eos. The reference sink keeps them in memory, so they
can be older than the received offset. A worker ignores them.
"""

from __future__ import annotations

from tests.connector.reference.frames import Frame
from tests.connector.reference.oracle import Oracle, Worker


class Positions:
    """The outdated offsets that the reference sink names, by worker, and all that it knows until a restart."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._outdated: dict[str, int] = {}

    def step(self, oracle: Oracle, connection: int, frame: Frame) -> list[Frame]:
        """Give a step to the oracle and return its replies, with the outdated offsets in their place."""
        opened = {name: worker.open for name, worker in oracle.workers.items()}
        replies = oracle.step(connection, frame)
        if frame[0] == "kill":
            self._known.clear()
        name = oracle.active.get(connection)
        if name is None:
            return replies
        received = oracle.workers[name].received
        match frame:
            case ("hello", *_):
                self._outdated[name] = self._known.get(name, 0)
            case ("notify", *_):
                self._known.setdefault(name, 0)
                return [("notify_ack", True, 1, self._outdated[name])] if name in self._outdated else replies
            case ("eos", _) if name in self._outdated:
                return [("ack", 1, [(1, self._outdated[name])])]
            case ("message", _, offset, _, _, body) if offset + len(body) == received:
                self._renew(name, received)
            case ("phase2", _, False) if name in self._known and opened[name] != oracle.workers[name].open:
                self._renew(name, received)
            case ("workers_left", _, names):
                for left in set(names) & self._known.keys():
                    del self._known[left]
                    self._outdated[left] = 0
        return replies

    def _renew(self, name: str, received: int) -> None:
        self._known[name] = received
        self._outdated.pop(name, None)


def _vote(worker: Worker, txn: str, where: list[tuple[int, int, int]]) -> str | None:
    if worker.open is not None and worker.open[0] != txn:
        return "votes for a second transaction"
    if worker.open is not None and (not worker.open[2] or worker.open[1] != where or worker.abort_next):
        return "votes anew for the same transaction"
    if len(where) != 1 or where[0][0] != 1:
        return "accepts another number of ranges, or ends at the next hello"
    start, end = where[0][1:]
    if end > worker.received != start:
        return "ends at a range beyond the data"
    return None


def departs(oracle: Oracle, connection: int, frame: Frame) -> str | None:
    """Return why the reference sink differs from the oracle at this step or after it, or None. Ask before the step."""
    name = oracle.active.get(connection)
    if frame[0] == "hello" and (name is not None or frame[4] in oracle.active.values()):
        return "touches the file at a second hello"
    if name is None:
        return None
    worker = oracle.workers[name]
    match frame:
        case ("ok" | "ack" | "restart" | "notify_ack", *_):
            return "sends the frame back"
        case ("notify", stream, _, _) if stream != 1:
            return "keeps the connection after its error"
        case ("message" | "eos", *_) if (connection, "notify") not in oracle.seen:
            return "accepts the frame if an earlier connection had a notify"
        case ("phase1", *_) if (connection, "list") not in oracle.seen:
            return "votes before the list"
        case ("phase1", txn, where):
            return _vote(worker, txn, where)
        case ("phase2", txn, commit) if worker.open is not None and worker.open[0] == txn:
            start, end = worker.open[1][0][1:]
            if commit and end != worker.received:
                return "ends at a commit before the received offset"
            if not commit and start != worker.committed:
                return "truncates to the start of the range"
        case ("workers_left", _, names) if set(names) & set(oracle.active.values()):
            return "renames the file of a worker that has a connection"
    return None
