"""Two `penstock run` processes: a view of one is a table of the other. Kills of either must lose and repeat nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.cli.app_file import load as load_app
from penstock.connector import LogFile, MessageKept
from tests.cli.loading import STORE
from tests.cli.running_process import ended, running, until
from tests.spout.wallaroo_worker import COOKIE, free_port
from tests.waiting import PATIENCE

APP = """
import penstock as ps
app = ps.App("shop")
orders = app.table("orders", key="id")
orders.view("sums", key="name", reduce={"n": ps.count(), "sum": ps.sum("v")})
"""
MIRROR = """
import penstock as ps
app = ps.App("mirror")
app.table("sums", key="key")
"""
NAMES = ("n0", "n1", "n2")
NO_KEY = None
"""A group that the second store rejects. The count of rejections shows each message that came twice."""


class Runs:
    """The folders of both processes, and the orders so far."""

    def __init__(self, path: Path, scheme: str = "wallaroo+source") -> None:
        self.sender, self.receiver = path / "sender", path / "receiver"
        for folder, app in ((self.sender, APP), (self.receiver, MIRROR)):
            folder.mkdir(parents=True)
            (folder / "app.py").write_text(app)
        uri = f"sums={scheme}://127.0.0.1:{free_port()}?cookie={COOKIE}"
        self.to, self.into = uri, f"{uri}&envelope=view"
        self.names: dict[str | None, dict[str, int]] = {}
        self.orders = 0

    def order(self, count: int) -> None:
        """Append orders to the file that the sender reads."""
        with (self.sender / "orders.jsonl").open("a") as file:
            for i in range(self.orders, self.orders + count):
                name = NO_KEY if i % 4 == 3 else f"n{i % 3}"
                file.write(json.dumps({"id": i, "name": name, "v": i}) + "\n")
                own = self.names.setdefault(name, {"n": 0, "sum": 0})
                own["n"], own["sum"] = own["n"] + 1, own["sum"] + i
        self.orders += count

    @contextmanager
    def both(self, follow: bool = True) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
        """Run both processes: the sender and the receiver."""
        source = f"orders=file:orders.jsonl{'?follow=1' if follow else ''}"
        with ExitStack() as stack:
            second = stack.enter_context(running(self.into, cwd=self.receiver))
            first = stack.enter_context(running(source, sinks=[self.to], cwd=self.sender))
            yield first, second

    def finish(self) -> None:
        """Let the sender send the rest, and judge both stores."""
        with self.both(follow=False) as (first, second):
            assert first.wait(PATIENCE) == 0, first.communicate()
            code, _, said = ended(second)
        assert (code, "Traceback" in said) == (0, False), said
        rows, rejected = self._received()
        assert rows == {name: own for name, own in self.names.items() if name is not NO_KEY}
        messages = self._sent()
        assert [number for number, _ in messages] == list(range(1, len(messages) + 1)), "each id is used once"
        assert rejected == sum(change["group"] is NO_KEY for _, change in messages)

    def has_rows(self) -> bool:
        """Return whether the second store has any row."""
        with suppress(ps.StoreMissing):
            return bool(self._received()[0])
        return False

    def _received(self) -> tuple[dict[str, Any], int]:
        app = load_app(str(self.receiver / "app.py"))
        with ps.open(app, self.receiver / STORE, readonly=True) as engine, engine.snapshot() as snap:
            found = {name: snap.table("sums").get(name) for name in NAMES}
            rejected: int = engine.status()["tables"]["sums"]["rejected"]
        return {name: doc["value"] for name, doc in found.items() if doc is not None}, rejected

    def _sent(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the messages in the log of the sender."""
        [path] = (self.sender / STORE / "connector").glob("*.log")
        with closing(LogFile(str(path))) as file:
            kept = [record for record in file.records if isinstance(record, MessageKept)]
        return [(record.message, json.loads(record.body)) for record in kept]


def run(path: Path, seed: int, kills: int = 8) -> int:
    """Kill one process or both at random moments, and judge both stores at the end. Return the number of kills."""
    choose, runs = random.Random(f"runs {seed}"), Runs(path)
    for _ in range(kills):
        runs.order(choose.randrange(1, 400))
        with runs.both() as (first, second):
            if choose.random() < 0.5:
                until(runs.has_rows, second)
            with suppress(subprocess.TimeoutExpired):
                first.wait(choose.random())
            struck = choose.choice(((first,), (second,), (first, second)))
            for child in struck:
                child.send_signal(signal.SIGKILL)
    runs.finish()
    return kills
