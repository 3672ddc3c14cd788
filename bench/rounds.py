"""One commit round on loopback: a view's sink is the coordinator, and another process is the participant.

A round sends one change, stores the transaction, gets the vote, stores the decision and sends it. It has four syncs:
the transaction, the vote, the decision, and the commit. The next vote waits for the commit. Two bare processes with the
same messages and syncs are the limit: their rounds are measured in turns with these.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import penstock as ps
from bench import child
from bench.limits import SmallestCommit
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.cli.running.source_thread import SourceThread
from penstock.sink import WallarooSink
from penstock.spout import SPOUTS, WallarooSpout

WITHIN = 0.002
_BLOCK = 10  # rounds between two measurements of the disk
_VIEW, _COOKIE = "by_name", "bench"
_CASES = {"a store": "bench.rounds:receive_in_store", "a program": "bench.rounds:receive_in_program"}


class Syncs:
    """The number of syncs of this process: syncs of files, and commits of LMDB."""

    def __init__(self) -> None:
        self.count = 0
        for name in ("fsync", "fdatasync"):
            mock.patch.object(os, name, self._counted(getattr(os, name))).start()
        mock.patch.object(LmdbWriter, "_commit_now", self._counted(LmdbWriter._commit_now)).start()

    def _counted(self, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def sync(target: Any) -> None:
            self.count += 1
            real(target)

        return sync


def rounds(plan: Plan) -> Iterator[Figure]:
    """Measure the median of a round with each kind of participant."""
    for case, receiver in _CASES.items():
        got = child.run("bench.rounds:send", folder=plan.at("rounds"), receiver=receiver, rounds=min(plan.puts, 1_000))
        mine, bare = got["rounds"], got["bare"]
        yield Figure(
            "round",
            f"with {case}",
            1e3 * median(mine),
            "ms",
            {
                "the same messages and syncs alone, ms": 1e3 * median(bare),
                "append + fdatasync, ms": 1e3 * median(got["appends"]),
                "smallest LMDB commit, ms": 1e3 * median(got["commits"]),
            },
            got["idle"],
            f"≤ {1e3 * WITHIN:.0f} ms",
            median(mine) / WITHIN,
            plan.met(median(mine) <= WITHIN),
            {
                "least, ms": 1e3 * min(mine),
                "least of the same alone, ms": 1e3 * min(bare),
                "p10, ms": 1e3 * percentile(mine, 0.1),
                "p99, ms": 1e3 * percentile(mine, 0.99),
                "syncs a round": [syncs / len(mine) for syncs in got["syncs"]],
            },
        )


def send(folder: str, receiver: str, rounds: int) -> dict[str, Any]:
    """Return the seconds of each round, of each bare one, and of single syncs."""
    root, syncs = fresh(folder), Syncs()
    (root / "bare").mkdir()
    out: dict[str, Any] = {"rounds": [], "bare": [], "appends": [], "commits": []}
    in_store = receiver.endswith("store")
    others = [
        child.start(receiver, folder=str(root / "receiver")),
        child.start("bench.rounds:receive_alone", folder=str(root / "bare"), in_store=in_store),
    ]
    addresses = [(host, int(port)) for host, port in (other.note().rsplit(":", 1) for other in others)]
    sink = WallarooSink("wallaroo://bench", addresses[0], _COOKIE, "w1", _VIEW, "value", json.dumps)
    sink.folder = str(root)
    sink.begin()
    with SmallestCommit(root) as smallest, closing(_Bare(addresses[1], root)) as bare:
        for position in range(1, rounds + 1):
            began = perf_counter()
            sink.write([ps.Change(_VIEW, position % 7, None, position, position)])
            sink.holds(position)
            out["rounds"].append(perf_counter() - began)
            if position % _BLOCK == 0:
                before = syncs.count
                out["bare"] += [bare.once() for _ in range(_BLOCK)]
                out["appends"] += [_append(bare.file) for _ in range(_BLOCK)]
                out["commits"] += [smallest.once() for _ in range(_BLOCK)]
                syncs.count = before
    sink.close()
    for other in others:
        other.stop()
    got, _ = (other.result() for other in others)
    shutil.rmtree(root)
    assert got["last"] == rounds, "the participant has the last change"
    return {**out, "syncs": [syncs.count, got["syncs"]]}


class _Bare:
    """A coordinator that sends bytes of the same sizes, and syncs as often."""

    def __init__(self, address: tuple[str, int], folder: Path) -> None:
        self.file = os.open(folder / "alone", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._peer = socket.create_connection(address)
        self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def once(self) -> float:
        began = perf_counter()
        _append(self.file)
        self._peer.sendall(b"p" * 200)
        assert self._peer.recv(1 << 16)
        _append(self.file)
        self._peer.sendall(b"d" * 60)
        return perf_counter() - began

    def close(self) -> None:
        self._peer.close()
        os.close(self.file)


def receive_alone(folder: str, in_store: bool) -> None:
    """Answer each first message after a sync, and sync after each second one."""
    with socket.create_server(("127.0.0.1", 0)) as server, SmallestCommit(Path(folder)) as smallest:
        file = os.open(Path(folder, "alone"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        print("{}:{}".format(*server.getsockname()), flush=True)
        peer, _ = server.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer:
            while data := peer.recv(1 << 16):
                for phase in (byte for byte in b"pd" if byte in data):
                    _ = smallest.once() if in_store else _append(file)
                    if phase == ord("p"):
                        peer.sendall(b"v" * 50)
        os.close(file)


def _append(file: int) -> float:
    """Return the seconds to append a record and to sync it."""
    began = perf_counter()
    os.write(file, b"x" * 100)
    os.fdatasync(file)
    return perf_counter() - began


def receive_in_store(folder: str) -> dict[str, Any]:
    """Receive the changes into the table of a store, until the end of stdin."""
    app = ps.App("mirror")
    app.table("rows", key="key")
    syncs, stopped = Syncs(), threading.Event()
    with ps.open(app, folder) as engine:
        text = f"wallaroo://127.0.0.1:0?cookie={_COOKIE}&envelope=view"
        spout = SPOUTS.open(text, "rows")
        assert isinstance(spout, WallarooSpout)
        source = SourceThread(engine, text, app.table_of("rows"), spout, stopped.is_set)
        source.start()
        _announce(spout.address)
        stopped.set()
        source.join()
        spout.close()
        assert source.error is None
        with engine.snapshot() as snap:
            last = max(doc["value"] for _, doc in snap.table("rows").items())
    return {"syncs": syncs.count, "last": last}


class _Program(ps.connector.Sink):
    """A program that keeps the last message of the worker in memory, so that only its log is synced."""

    last = b""

    def write(self, worker: str, offset: int, body: bytes) -> None:
        self.last = body


def receive_in_program(folder: str) -> dict[str, Any]:
    """Receive the changes in a program with transaction logs, until the end of stdin."""
    syncs, program = Syncs(), _Program("127.0.0.1:0", _COOKIE, folder=folder)
    with program:
        serving = threading.Thread(target=program.serve)
        serving.start()
        _announce(program.address)
        program.stop()
        serving.join()
        return {"syncs": syncs.count, "last": json.loads(program.last)["value"]}


def _announce(address: tuple[str, int]) -> None:
    """Print the address, and wait until the parent has no more rounds."""
    print("{}:{}".format(*address), flush=True)
    sys.stdin.read()
