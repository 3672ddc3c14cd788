"""Kill, pause, end and start members of one group, which are spout processes of one store, while records are produced.

    python -m tests.kafka.storms --strikes 100 --seed 1 [--client confluent]

A seed determines a story: up to three members over a store of several partitions, and the strikes at them. A paused
member wakes with the records that it had fetched, after other members have read its share. If it was the holder of the
store, another member kills it. After each strike the remaining members bring all records into the store. At the end

- documents and views equal a recomputation of the topic in plain Python, from the records that another client reads;
- the store's offset of each partition of the topic is its end, in every partition of the store;
- the group's offsets are not beyond these, and the members report nothing but their progress.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.cache import writer_pid
from penstock.remote import claims
from tests.kafka.killing import APP
from tests.kafka.server import Server, ck, serve, until
from tests.waiting import PATIENCE

STRIKES = ("kill", "kill the holder", "stop", "stop the holder", "end", "begin")
_MEMBERS = 3
_PARTITIONS = 5  # of the topic
_PARTS = 2  # of the store
_KEYS = 40
_AGAIN = 0.02
_ROOT = Path(__file__).resolve().parents[2]


class Storm:
    """One store, its members, and the strikes at them."""

    def __init__(self, server: Server, client: str, folder: Path, seed: int) -> None:
        self._server, self._client, self._folder = server, client, folder
        self._draw = random.Random(seed)
        self._topic = server.topic(_PARTITIONS)
        self._group = f"storm-{self._topic}"
        self._store = str(folder / "state")
        self._producer = ck.Producer({"bootstrap.servers": server.servers, "enable.idempotence": True, "log_level": 0})
        self._produced = [0] * _PARTITIONS
        self._begun = 0
        self._members: dict[int, subprocess.Popen[str]] = {}  # by the number of the start
        self.struck: Counter[str] = Counter()
        (folder / "app.py").write_text(APP)
        self._app: ps.App = self._loaded()
        ps.open(self._app, self._store, partitions=_PARTS).close()
        self._reader = ps.open(self._app, self._store, readonly=True)

    @staticmethod
    def _loaded() -> ps.App:
        spaces: dict[str, Any] = {}
        exec(APP, spaces)
        app: ps.App = spaces["app"]
        return app

    def close(self) -> None:
        self._reader.close()
        for child in self._members.values():
            child.kill()
            child.communicate()

    # -- members

    def begin(self) -> None:
        """Start another member."""
        uri = f"users=kafka://{self._server.servers}/{self._topic}?group={self._group}&client={self._client}"
        command = [sys.executable, "-m", "tests.kafka.run_member", "--app", str(self._folder / "app.py")]
        command += ["--store", self._store, "run", "--from", uri]
        self._begun += 1
        with (self._folder / f"{self._begun}.log").open("w") as log:
            self._members[self._begun] = subprocess.Popen(
                command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=log, text=True
            )

    def _said(self, number: int) -> str:
        return (self._folder / f"{number}.log").read_text()

    def _alive(self) -> list[int]:
        """Return the running members. A member that ended by itself is a failure."""
        for number, child in self._members.items():
            assert child.poll() is None, f"member {number} ended with {child.returncode}: {self._said(number)}"
        return list(self._members)

    def _held(self) -> int | None:
        """Return the member that holds the store."""
        pid = writer_pid(self._store)
        return next((number for number, child in self._members.items() if child.pid == pid), None)

    # -- records

    def produce(self, many: int) -> None:
        for _ in range(many):
            n = sum(self._produced)
            key = self._draw.randrange(_KEYS)
            own = {"id": key, "name": self._draw.choice("ABCDE"), "n": n / 4}
            value = None if self._draw.random() < 0.2 else json.dumps(own)
            self._producer.produce(self._topic, value, b"%d" % key, key % _PARTITIONS)
            self._produced[key % _PARTITIONS] += 1
        assert self._producer.flush(PATIENCE) == 0

    def _sources(self) -> dict[str, int]:
        with self._reader.snapshot() as snap:
            return dict(snap.sources)

    def _ends(self) -> dict[str, int]:
        return {f"users=kafka:{self._topic}/{p}": end for p, end in enumerate(self._produced)}

    def _until(self, found: Callable[[], bool], what: str) -> None:
        def seen() -> bool:
            self._alive()
            return found() or threading.Event().wait(_AGAIN)

        until(seen, what)

    def settle(self) -> None:
        """Wait until all records are in the store."""
        self._until(lambda: self._sources() == self._ends(), "the store has the whole topic")

    # -- strikes

    def strike(self, what: str | None = None) -> None:
        """Strike a random member. The kind of strike is random too, unless it is given."""
        alive = self._alive()
        if what is None:
            what = self._draw.choice([one for one in STRIKES if one != "begin" or len(alive) < _MEMBERS])
        if len(alive) < 2:
            what = "begin"
        self.struck[what] += 1
        self.produce(self._draw.randrange(1, 60))
        if what == "begin":
            self.begin()
        else:
            self._befall(what, alive)
        self.produce(self._draw.randrange(1, 60))
        self.settle()

    def _befall(self, what: str, alive: list[int]) -> None:
        holder = self._held()
        others = [number for number in alive if number != holder]
        number = holder if "holder" in what and holder is not None else self._draw.choice(others)
        child = self._members[number]
        if what in ("kill", "kill the holder"):
            del self._members[number]
            child.kill()
            child.wait()
        elif what == "end":
            del self._members[number]
            self._end(number, child)
        else:
            child.send_signal(signal.SIGSTOP)
            self.produce(self._draw.randrange(20, 80))
            if number == holder:
                del self._members[number]
                until(lambda: child.poll() is not None, "a stopped holder is ended")
                assert child.returncode == -signal.SIGKILL, self._said(number)
            else:
                self.settle()
                child.send_signal(signal.SIGCONT)

    def _end(self, number: int, child: subprocess.Popen[str]) -> None:
        """Ask a member to end. If it has its claim, it must end in order."""
        up = any(one["pid"] == child.pid for one in claims(self._store))
        child.terminate()
        code = child.wait(PATIENCE)
        assert code == 0 or (code == -signal.SIGTERM and not up), f"member {number}: {code}, {self._said(number)}"

    # -- the final check

    def check(self) -> None:
        """Compare the results with a recomputation."""
        self.settle()
        for number in self._alive():
            self._end(number, self._members.pop(number))
        users: dict[int, Any] = {}
        for _, key, value in self._server.rows(self._topic):
            users.pop(int(key or b""), None)
            if value is not None:
                users[int(key or b"")] = json.loads(value)
        with ps.open(self._app, self._store) as engine, engine.snapshot(consistency="position") as snap:
            assert dict(snap.table("users").items()) == users
            assert dict(snap.view("names").items()) == dict(Counter(user["name"] for user in users.values()))
            assert snap.view("total").get((), 0) == sum(user["n"] for user in users.values())
            assert all(dict(part.sources) == self._ends() for part in snap.parts)
        assert all(offset <= self._produced[p] for p, offset in self._server.committed(self._group).items())
        for number in range(1, self._begun + 1):
            assert "Traceback" not in self._said(number), self._said(number)


def storm(server: Server, client: str, seed: int, strikes: Sequence[str | None]) -> Counter[str]:
    """Run a storm of these strikes. None stands for a random one. Return the number of strikes by kind."""
    with tempfile.TemporaryDirectory() as folder:
        own = Storm(server, client, Path(folder), seed)
        try:
            for _ in range(_MEMBERS):
                own.begin()
            own.produce(50)
            own.settle()
            for what in strikes:
                own.strike(what)
            own.check()
        finally:
            own.close()
        return own.struck


def main() -> None:
    """Run a storm from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strikes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", default="kafka-python")
    asked = parser.parse_args()
    began = time.monotonic()
    server = serve()
    try:
        struck = storm(server, asked.client, asked.seed, [None] * asked.strikes)
    finally:
        server.close()
    what = ", ".join(f"{many} {name}" for name, many in sorted(struck.items()))
    took = time.monotonic() - began
    print(f"{asked.client}, seed {asked.seed}: {asked.strikes} strikes ({what}) in {took:.0f} s, all held")


if __name__ == "__main__":
    main()
