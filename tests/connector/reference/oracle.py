"""The oracle of the participant: the replies, committed bytes and open transactions that a history of frames must have.

A history is a list of (connection, frame). Each connection has a number of its own, and its first frame opens it. Two
frames come from no wire: `("cut", prefix)` ends a connection, after `prefix` bytes of a frame that stays incomplete.
`("kill",)` ends the sink and starts it again. A reply `("closed",)` stands for the end of a connection by the sink.
An `error` of the oracle has a part of the text that the sink must send.

Choices where the protocol leaves one:
- Each connection needs a notify before data and eos. Its answer names the received offset after truncation.
- Each connection needs a list before phase 1, since a vote before the answer to the list would crash the worker.
- A notify of another stream than 1 is refused like each fault of the peer: an error, and the end of the connection.
- A vote for a second transaction, or for the open one with another range, is abort and is not recorded.
- `workers_left` skips each worker that has a connection. The worker that sends it is one of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.connector.reference.frames import COOKIE, CREDITS, VERSION, Frame, decoded

NEEDS = {"message": "notify", "eos": "notify", "phase1": "list"}
NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,128}")


class Fault(Exception):
    """A fault of the peer. The sink answers with an error and ends the connection."""


@dataclass
class Worker:
    """The state of one worker. Only bytes after `prepared` may be lost."""

    received: int = 0
    committed: int = 0
    data: bytes = b""
    open: tuple[str, list[tuple[int, int, int]], bool] | None = None  # (txn, where, commit vote)
    abort_next: bool = False

    @property
    def prepared(self) -> int:
        return self.open[1][0][2] if self.open and self.open[2] else self.committed

    def truncate(self, offset: int) -> None:
        self.received, self.data = offset, self.data[:offset]

    def append(self, offset: int, body: bytes) -> None:
        if offset < self.received or not body:
            raise Fault
        if offset == self.received:
            self.received, self.data = offset + len(body), self.data + body
        else:
            self.abort_next = True

    def vote(self, txn: str, where: list[tuple[int, int, int]], refused: bool) -> bool:
        if self.open is not None:
            return self.open == (txn, where, True)
        stream, start, end = where[0] if len(where) == 1 else (0, 0, 0)
        valid = stream == 1 and self.committed == start <= end <= self.received and not (self.abort_next or refused)
        self.open, self.abort_next = (txn, where, valid), False
        return valid

    def decide(self, txn: str, commit: bool) -> None:
        if self.open is None or self.open[0] != txn:
            return
        if commit and not self.open[2]:
            raise Fault
        self.committed = self.prepared if commit else self.committed
        self.truncate(self.received if commit else self.committed)
        self.open = None


@dataclass
class Oracle:
    """A participant whose program refuses to prepare the transactions `refused`."""

    refused: frozenset[str] = frozenset()
    workers: dict[str, Worker] = field(default_factory=dict)
    left: list[tuple[str, bytes]] = field(default_factory=list)  # workers that left, with their committed bytes
    active: dict[int, str] = field(default_factory=dict)  # connections after hello
    seen: set[tuple[int, str]] = field(default_factory=set)  # connections, and the kinds of their frames
    closed: set[int] = field(default_factory=set)

    def step(self, connection: int, frame: Frame) -> list[Frame]:
        if frame[0] == "raw":
            frame = decoded(frame[1])
        if connection in self.closed:
            return []
        if frame[0] in ("kill", "cut", "error"):
            self._close(*(self.active if frame[0] == "kill" else [connection]))
            return [("closed",)] if frame[0] == "error" else []
        try:
            return self._replies(connection, *frame)
        except Fault as fault:
            self._close(connection)
            return [("error", str(fault)), ("closed",)]

    def _close(self, *connections: int) -> None:
        self.closed.update(connections)
        self.active = {number: name for number, name in self.active.items() if number not in connections}

    def _replies(self, connection: int, kind: str, *fields: Any) -> list[Frame]:
        if (kind == "hello") == (connection in self.active):
            raise Fault
        if kind == "hello":
            return self._hello(connection, *fields)
        worker = self.workers[self.active[connection]]
        unknown = kind in ("message", "eos", "notify") and fields[0] != 1
        early = kind in NEEDS and (connection, NEEDS[kind]) not in self.seen
        if unknown or early or (kind in ("phase1", "phase2") and not str(fields[0]).isascii()):
            raise Fault(f"Unsupported stream id {fields[0]}" if kind == "notify" else "")
        self.seen.add((connection, kind))
        match kind, *fields:
            case "notify", *_:
                return [("notify_ack", True, 1, worker.received)]
            case "message", _, offset, _, _, body:
                worker.append(offset, body)
            case "eos", _:
                return [("ack", 1, [(1, worker.received)])]
            case "list", rtag:
                return [("uncommitted", rtag, [worker.open[0]] if worker.open else [])]
            case "phase1", txn, where:
                return [("vote", txn, worker.vote(txn, where, txn in self.refused))]
            case "phase2", txn, commit:
                worker.decide(txn, commit)
            case "workers_left", _, names:
                self._workers_left(names)
            case _:
                raise Fault
        return []

    def _hello(self, connection: int, version: str, cookie: str, _: str, name: str) -> list[Frame]:
        if version != VERSION or cookie != COOKIE or not NAME.fullmatch(name):
            raise Fault
        if name in self.active.values():
            raise Fault("already active")
        self.active[connection] = name
        worker = self.workers.setdefault(name, Worker())
        worker.truncate(worker.prepared)
        return [("ok", CREDITS)]

    def _workers_left(self, names: list[str]) -> None:
        if not all(map(NAME.fullmatch, names)):
            raise Fault
        for name in names:
            if name in self.workers and name not in self.active.values():
                worker = self.workers.pop(name)
                self.left.append((name, worker.data[: worker.committed]))
