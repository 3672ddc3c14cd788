"""Histories of concurrent writes with conditions, reads and removes, and the search of Wing and Gong for an order.

A history of one key is linearizable if its calls have an order that agrees with time and with a register. A read gives
the ts of the document. A write succeeds if its condition held. A call of unknown outcome may have happened at any time
after it began, or not at all.

python -m tests.client.histories --rounds 20 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from penstock.client import Client, ServiceError
from penstock.rpc import penstock_pb2 as pb
from tests.serve.serving import RunningServer

Seen = int | None
"""The ts of a document; None if there is none."""
_NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Event:
    """One call on a key: when it began and ended, the state that it found, and the one that it left."""

    began: int
    ended: int
    found: Seen
    left: Seen
    sure: bool = True


def linearizable(events: Sequence[Event]) -> bool:
    """Search for an order of the calls on one key."""
    seen: set[tuple[frozenset[int], Seen]] = set()

    def search(left: frozenset[int], state: Seen) -> bool:
        if all(not events[i].sure for i in left):
            return True
        if (left, state) in seen:
            return False
        seen.add((left, state))
        first = min(events[i].ended for i in left)
        return any(
            search(left - {i}, events[i].left) for i in left if events[i].began <= first and events[i].found == state
        )

    return search(frozenset(range(len(events))), None)


class History:
    """Calls of several threads on a few keys, with a clock that counts their beginnings and ends."""

    def __init__(self, target: str, token: str, seed: int, threads: int = 4, calls: int = 10, keys: int = 2) -> None:
        self._target, self._token, self._seed = target, token, seed
        self._calls, self._keys = calls, keys
        self._clock, self._ts = count(), count(1)
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(threads)]
        self.events: dict[int, list[Event]] = {key: [] for key in range(keys)}
        self.failures: list[BaseException] = []

    def run(self) -> None:
        """Run all threads to their ends."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    @property
    def holds(self) -> bool:
        """True if the calls on each key are linearizable."""
        return all(linearizable(events) for events in self.events.values())

    def _run(self, number: int) -> None:
        choose = random.Random(f"{self._seed} {number}")
        try:
            with Client(self._target, self._token, patience=0) as client:
                for _ in range(self._calls):
                    self._call(client, choose.randrange(self._keys), choose)
        except BaseException as error:
            self.failures.append(error)

    def _call(self, client: Client, key: int, choose: random.Random) -> None:
        """Read, then write on the condition that nothing has changed."""
        token: bytes = getattr(client, "token", b"")
        try:
            found = self._read(client, key, token if choose.random() < 0.5 else b"")
        except ServiceError:
            return  # a read that failed has no effect
        if choose.random() < 0.3:
            return
        remove, ts = found is not None and choose.random() < 0.3, next(self._ts)
        began = next(self._clock)
        wanted = (
            pb.Condition(key=b"%d" % key, absent=True)
            if found is None
            else pb.Condition(key=b"%d" % key, ts=b"%d" % found)
        )
        left = None if remove else ts
        try:
            reply = self._write(client, key, ts, wanted, remove)
        except ServiceError as error:
            if error.reason == "CONDITION_FAILED":
                text = error.about[str(key)]
                other = None if text == "no document" else int(text.rpartition(" ")[2])
                self._add(key, Event(began, next(self._clock), other, other))
            elif not error.nothing_done:
                self._add(key, Event(began, _NEVER, found, left, sure=False))
            return
        client.token = reply.token  # type: ignore[attr-defined]
        late = not reply.applied  # a deletion with a higher ts came between: the condition holds, and nothing changes
        self._add(key, Event(began, next(self._clock), found, found if late else left))

    def _read(self, client: Client, key: int, token: bytes) -> Seen:
        consistency = pb.SESSION if token else pb.LINEARIZABLE
        request = pb.GetRequest(of="orders", keys=[b"%d" % key], consistency=consistency, token=token)
        began = next(self._clock)
        (row,) = client.run(_one("Get", request)).rows
        found = None if not row.present else int(row.value.rpartition(b'"ts": ')[2].split(b",")[0].rstrip(b"}"))
        self._add(key, Event(began, next(self._clock), found, found))
        return found

    def _write(self, client: Client, key: int, ts: int, wanted: pb.Condition, remove: bool) -> Any:
        if remove:
            request: Any = pb.RemoveRequest(table="orders", keys=[b"%d" % key], ts=b"%d" % ts, conditions=[wanted])
            return client.run(_one("Remove", request))
        line = b'{"id": %d, "ts": %d}' % (key, ts)
        return client.run(_one("Upsert", pb.UpsertRequest(table="orders", lines=line, conditions=[wanted])))

    def _add(self, key: int, event: Event) -> None:
        self.events[key].append(event)


def _one(name: str, request: Any) -> Any:
    from penstock.client.call_steps import CallStep

    reply = yield CallStep(name, request, repeated=False)
    return reply


def rounds(number: int, seed: int) -> Iterator[tuple[str, int, bool]]:
    """Run histories on real servers while a process of each is killed. Yield each with its number of calls."""
    choose = random.Random(seed)
    for i in range(number):
        with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder)) as server:
            target, victim = f"127.0.0.1:{server.rpc_port}", choose.choice(["holder", "front"])
            history = History(target, server.token, seed * 1000 + i, calls=40)
            killer = threading.Timer(choose.random(), os.kill, (server.children()[victim], signal.SIGKILL))
            killer.start()
            history.run()
            killer.join()
            yield victim, sum(map(len, history.events.values())), history.holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for i, (victim, calls, holds) in enumerate(rounds(asked.rounds, asked.seed)):
        print(
            f"round {i + 1}: a kill of the {victim}, {calls} calls, {'linearizable' if holds else 'NOT LINEARIZABLE'}"
        )
        if not holds:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
