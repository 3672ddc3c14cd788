"""Stop or kill a server under load: no answered write is lost. `make serve-stops` does many rounds.

python -m tests.serve.stops --rounds 200 --seed 1
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import penstock as ps
from tests.serve.serving import APP, RunningServer
from tests.waiting import PATIENCE

STRIKES = ("stop", "two signals", "kill the first process", "kill the holder", "kill a front")
_CHECKED = 20  # answers before a strike, and after one that the server survives


class Load:
    """Threads that put documents, and a stream of changes; `answered` are the keys of answered puts."""

    def __init__(self, server: RunningServer, writers: int = 3) -> None:
        self._server = server
        self._grown = threading.Condition()
        self._ended = False
        self.answered: list[int] = []
        self._writers = [threading.Thread(target=self._write, args=(i * 1_000_000,)) for i in range(writers)]

    def begin(self) -> None:
        """Open the stream, then begin the writers."""
        self._stream = self._server.connection()
        self._stream.request("GET", "/v1/events", headers=self._headers)
        self.events = self._stream.getresponse()
        assert self.events.readline() == b": open\n"
        for writer in self._writers:
            writer.start()

    def more(self, answers: int) -> None:
        """Wait for so many further answers."""
        with self._grown:
            enough = len(self.answered) + answers
            assert self._grown.wait_for(lambda: len(self.answered) >= enough, PATIENCE), "the server answers no put"

    def end(self) -> None:
        """Wait for the writers, which end with the server."""
        self._ended = True
        for writer in self._writers:
            writer.join()
        self._stream.close()

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._server.token}"}

    def _write(self, first: int) -> None:
        key, pause = first, threading.Event()
        while not self._ended:
            with suppress(OSError, http.client.HTTPException):  # the connection of a killed front
                key = self._write_on_connection(key)
            pause.wait(0.01)

    def _write_on_connection(self, key: int) -> int:
        connection = self._server.connection()
        try:
            while not self._ended:
                body = json.dumps({"id": key, "ts": 1, "country": "NO"})
                connection.request("POST", "/v1/tables/orders", body, self._headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    with self._grown:
                        self.answered.append(key)
                        self._grown.notify_all()
                key += 1
            return key
        finally:
            connection.close()


def stop_under_load(folder: Path, strike: str, options: Sequence[str] = ()) -> list[int]:
    """Run one round. Return the keys of all answered puts, after the end of all processes."""
    with RunningServer(folder, *options) as server:
        load = Load(server)
        load.begin()
        load.more(_CHECKED)
        children = server.children()
        if strike in ("kill the holder", "kill a front"):
            os.kill(children["holder" if strike == "kill the holder" else "front"], signal.SIGKILL)
            load.more(_CHECKED)
        if strike == "kill the first process":
            server.stop(signal.SIGKILL)
        elif strike == "two signals":
            server.process.send_signal(signal.SIGTERM)
            server.stop(signal.SIGINT)
        else:
            assert server.stop() == 0, server.errors
        load.end()
        for pid in children.values():
            wait_gone(pid)
    return load.answered


def wait_gone(pid: int) -> None:
    """Wait until a process has ended. If its parent ended first, another process reaps it."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        pause.wait(0.02)
    raise AssertionError(f"process {pid} did not end with its parent")


def lost(folder: Path, answered: Sequence[int]) -> list[int]:
    """Return the keys of answered puts that the store lacks."""
    scope: dict[str, ps.App] = {}
    exec(APP, scope)
    with ps.open(scope["app"], folder / "penstock-state") as engine, engine.snapshot() as snap:
        table = snap.table("orders")
        assert snap.view("revenue")["NO"]["n"] == len(table)
        return [key for key in answered if key not in table]


def rounds(count: int, seed: int, tell: Callable[[str], object]) -> None:
    """Run rounds with strikes in a random order."""
    choose = random.Random(seed)
    for number in range(count):
        strike = choose.choice(STRIKES)
        options = ["--fronts", str(choose.randint(1, 3))]
        with tempfile.TemporaryDirectory() as folder:
            answered = stop_under_load(Path(folder), strike, options)
            missing = lost(Path(folder), answered)
        tell(f"round {number + 1}: {strike}, {len(answered)} answered writes, {len(missing)} lost")
        assert not missing, missing


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rounds(given.rounds, given.seed, print)
