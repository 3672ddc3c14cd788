"""Kill the engine, the broker or both with SIGKILL while records are produced, and check the result.

    python -m tests.kafka.killing --kills 200 --seed 1 [--client confluent] [--partitions 2]

A seed determines a story: the victims, and the moments, which are random or at counted points of the engine. In a store
of several partitions the process of one partition may be killed, which another replaces. Then all processes run to the
end, and

- documents and views equal a recomputation of the topic in plain Python, from the records that another client reads;
- the latest value of each key of the topic of changes equals the view;
- the store's offset of each partition is its end, and the group's offset is not beyond it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import penstock as ps
from examples.kafka.broker import Broker, dying_with_parent
from penstock.core.commit import Core
from penstock.remote import claims
from tests.kafka.run_killed import POINTS
from tests.kafka.server import Server, ck, until
from tests.waiting import PATIENCE

APP = """
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id")
names = users.view("names", key="name", reduce=ps.count())
total = users.view("total", key=(), value="n", reduce=ps.sum())
"""
_PARTITIONS = 2
_KEYS = 40
_AHEAD = 400  # records that the store may be behind
_ROOT = Path(__file__).resolve().parents[2]


class Story:
    """One broker, one store, and a series of kills."""

    def __init__(self, folder: Path, client: str, seed: int, parts: int = 1) -> None:
        self._folder, self._client, self._parts = folder, client, parts
        self._draw = random.Random(seed)
        self._broker = Broker()
        self._broker.start()
        self._server = Server("real", self._broker.servers)
        self._source, self._sink = self._server.topic(_PARTITIONS), self._server.topic(_PARTITIONS)
        self._producer = ck.Producer(
            {"bootstrap.servers": self._broker.servers, "enable.idempotence": True, "log_level": 0}
        )
        self._produced = 0
        self._children: list[subprocess.Popen[str]] = []
        self.killed: Counter[str] = Counter()
        (folder / "app.py").write_text(APP)
        if parts > 1:
            ps.open(_app(), folder / "state", partitions=parts).close()

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()
        self._server.close()
        self._broker.stop()

    def _produce(self, many: int) -> None:
        for _ in range(many):
            self._produced += 1
            key = self._draw.randrange(_KEYS)
            own = {"id": key, "name": self._draw.choice("ABCDE"), "n": self._produced / 4}
            value = None if self._draw.random() < 0.2 else json.dumps(own)
            self._producer.produce(self._source, value, b"%d" % key, key % _PARTITIONS)
        self._producer.poll(0)

    def _feed(self) -> None:
        """Produce more records, as long as the store keeps up: the topic is read completely at the end."""
        if self._produced - sum(self._sources().values()) < _AHEAD:
            self._produce(20)
        self._producer.flush(0.1)

    def _run(self, *program: str) -> subprocess.Popen[str]:
        at = f"kafka://{self._broker.servers}"
        command = [sys.executable, "-m", *(program or ("penstock",)), "run", "--from"]
        group = "group=shop&" if self._parts == 1 else ""  # only one process reads it, and not as a member of a group
        command += [f"users={at}/{self._source}?{group}client={self._client}", "--to"]
        command += [f"names={at}/{self._sink}?client={self._client}", "--app", str(self._folder / "app.py")]
        command += ["--store", str(self._folder / "state")]
        child = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=dying_with_parent(),
        )
        self._children = [one for one in self._children if one.poll() is None] + [child]
        return child

    def kill(self) -> None:
        """Kill a random victim at a random moment."""
        victims = ["engine", "engine at a point", "engine at a point", "broker", "both"]
        who = self._draw.choice([*victims, "partition"] if self._parts > 1 else victims)
        self.killed[who] += 1
        if who == "engine at a point":
            point = self._draw.choice([at for at, own in POINTS.items() if self._parts == 1 or own[0] is not Core])
            child = self._run("tests.kafka.run_killed", point, str(self._draw.randrange(1, 4)))
            self._until_dead(child)
            return
        child = self._run()
        try:
            self._until_at(self._stands() + self._draw.randrange(1, 30), child)
            if who == "partition":
                os.kill(self._draw.choice(_children(child.pid)), signal.SIGKILL)
            if who in ("broker", "both"):
                self._broker.kill()
                self._produce(10)
            if who in ("engine", "both"):
                child.kill()
                child.communicate()
            if who in ("broker", "both"):
                self._broker.start()
            if who in ("broker", "partition"):
                self._until_at(self._stands() + 1, child)
        finally:
            child.kill()
            child.communicate()

    def _until_dead(self, child: subprocess.Popen[str]) -> None:
        """Produce records until the process reaches its point and is dead."""
        end = time.monotonic() + PATIENCE
        while child.poll() is None:
            assert time.monotonic() < end, "it never came there"
            self._feed()
        _, said = child.communicate()
        assert child.returncode == -9, said

    def _until_at(self, position: int, child: subprocess.Popen[str]) -> None:
        def found() -> bool:
            assert child.poll() is None, child.communicate()[1]
            self._feed()
            return self._stands() >= position

        until(found, f"the store comes to {position}")

    def _opened(self) -> ps.Engine:
        return ps.open(_app(), self._folder / "state", readonly=True)

    def _stands(self) -> int:
        try:
            with self._opened() as engine, engine.snapshot() as snap:
                return snap.position if self._parts == 1 else sum(snap.position)
        except ps.StoreMissing:
            return 0

    def check(self) -> None:
        """Let all processes run to the end, and compare the results with a recomputation."""
        assert self._producer.flush(PATIENCE) == 0
        ends = {p: self._server.bounds(self._source, p)[1] for p in range(_PARTITIONS)}
        sources = {f"users=kafka:{self._source}/{partition}": end for partition, end in ends.items()}
        child = self._run()
        try:
            until(lambda: child.poll() is not None or self._has(sources, child.pid), "the store has the whole topic")
            child.terminate()
            _, said = child.communicate(timeout=PATIENCE)
            assert child.returncode == 0, f"{child.returncode}: {said}"
        finally:
            child.kill()
            child.communicate()
        users: dict[int, Any] = {}
        for _, key, value in self._server.rows(self._source):
            users.pop(int(key or b""), None)
            if value is not None:
                users[int(key or b"")] = json.loads(value)
        names = dict(Counter(user["name"] for user in users.values()))
        latest: dict[bytes | None, bytes | None] = {key: value for _, key, value in self._server.rows(self._sink)}
        given = {
            json.loads(key or b""): json.loads(value)["value"] for key, value in latest.items() if value is not None
        }
        with self._opened() as engine, engine.snapshot() as snap:
            assert dict(snap.table("users").items()) == users
            assert dict(snap.view("names").items()) == names
            assert snap.view("total").get((), 0) == sum(user["n"] for user in users.values())
            assert snap.sources == sources
        assert given == names
        if self._parts == 1:
            assert all(offset <= ends[p] for p, offset in self._server.committed("shop").items())
        assert sum(ends.values()) == self._produced, "no record was produced twice, and none was lost"

    def _has(self, sources: dict[str, int], pid: int) -> bool:
        """Return whether all records are stored and this process runs, so that it ends in order on request."""
        return self._sources() == sources and any(one["pid"] == pid for one in claims(str(self._folder / "state")))

    def _sources(self) -> dict[str, int]:
        try:
            with self._opened() as engine, engine.snapshot() as snap:
                return dict(snap.sources)
        except ps.StoreMissing:
            return {}


def _app() -> ps.App:
    spaces: dict[str, Any] = {}
    exec(APP, spaces)
    app: ps.App = spaces["app"]
    return app


def _children(pid: int) -> list[int]:
    """Return the partition processes of a process that holds a store."""
    own = (Path("/proc") / str(pid) / "task").glob("*/children")
    return sorted({int(child) for path in own for child in path.read_text().split()})


def story(client: str, seed: int, kills: int, parts: int = 1, check_every: int = 20) -> Counter[str]:
    """Run a story of so many kills, and report progress. Return how often each victim was killed."""
    with tempfile.TemporaryDirectory() as folder:
        own = Story(Path(folder), client, seed, parts)
        try:
            for n in range(kills):
                own.kill()
                if (n + 1) % check_every == 0 and n + 1 < kills:
                    own.check()
                    print(f"{n + 1} of {kills}, all held", flush=True)
            own.check()
        finally:
            own.close()
        return own.killed


def main() -> None:
    """Run a story from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", default="kafka-python")
    parser.add_argument("--partitions", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    killed = story(asked.client, asked.seed, asked.kills, asked.partitions)
    who = ", ".join(f"{many} {name}" for name, many in sorted(killed.items()))
    what = f"{asked.client}, seed {asked.seed}, a store of {asked.partitions}"
    print(f"{what}: {asked.kills} kills ({who}) in {time.monotonic() - began:.0f} s, all held")


if __name__ == "__main__":
    main()
