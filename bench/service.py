"""A server beside the engine in one process: CPU of a put of 1,000 documents, of a get, and of a get of 1,000 keys.

CPU is that of both processes of the server, the front and the holder. A quick client and a slow one count the same.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import grpc

import penstock as ps
from bench import child
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import TABLE, Workload, app, cut
from penstock.rpc import json_field, service_stub
from penstock.rpc import penstock_pb2 as pb

_BATCH = 1_000
_REACH = {"gRPC": 0.80, "HTTP": 0.85}
_KEYS_RATE = 150_000
_APP = "from bench.workload import app as make\n\napp = make()\n"
_TICKS = os.sysconf("SC_CLK_TCK")


def service(plan: Plan) -> Iterator[Figure]:
    """Puts beside the engine, then gets."""
    got = child.run(
        "bench.service:measure",
        folder=plan.at("service"),
        keys=plan.keys,
        puts=max(2, min(plan.docs // _BATCH, 300)),
        gets=max(20, min(plan.puts, 2_000) * 5),
        rounds=plan.rounds,
    )
    own = median(got["put_many"])
    for kind, least in _REACH.items():
        cost = median(got[kind])
        share = own / cost
        limits: dict[str, float | None] = {"put_many, ms": 1e3 * own}
        case, reach = f"Upsert of 1,000 by {kind}", f"≥ {least:.0%} of put_many, by CPU"
        met = plan.met(share >= least)
        yield Figure("service", case, 1e3 * cost, "ms of CPU", limits, got["idle"], reach, share, met)
        yield Figure("service", f"get by {kind}", 1e6 * median(got[f"get {kind}"]), "µs of CPU", {}, got["idle"])
    rate = 1 / median(got["get of 1,000"])
    case, reach = "get of 1,000 keys", f"≥ {_KEYS_RATE:,} keys/s"
    met = plan.met(rate >= _KEYS_RATE)
    yield Figure("service", case, rate, "keys/s of CPU", {}, got["idle"], reach, rate / _KEYS_RATE, met)


def measure(folder: str, keys: int, puts: int, gets: int, rounds: int) -> dict[str, Any]:
    """Return seconds of CPU of each kind of call, by round."""
    root = fresh(folder)
    work = Workload(keys)
    out: dict[str, list[float]] = {}
    engine = ps.open(app(), root / "own")
    with engine, _Server(root) as server:
        _fill(work, keys, engine, server)
        for _ in range(rounds):
            parts = cut(work.upserts(3 * puts * _BATCH), _BATCH)
            ways: list[tuple[str, Callable[[list[bytes]], object], Callable[[], float]]] = [
                ("put_many", lambda lines: engine.put_many(TABLE, lines), time.process_time),
                ("gRPC", server.upsert, server.cpu),
                ("HTTP", server.post, server.cpu),
            ]
            for i, (name, put, cpu) in enumerate(ways):
                began = cpu()
                for lines in parts[i * puts : (i + 1) * puts]:
                    put(lines)
                out.setdefault(name, []).append(max(cpu() - began, 1 / _TICKS) / puts)
            with engine.snapshot() as snap:
                found = [row.key for row in snap.view("by_city")]
            cities = [found[i % len(found)] for i in range(gets)]
            for name, get in (("get gRPC", server.get), ("get HTTP", server.fetch)):
                began = server.cpu()
                for city in cities:
                    get(city)
                out.setdefault(name, []).append(max(server.cpu() - began, 1 / _TICKS) / gets)
            began, calls = server.cpu(), max(2, gets // 50)
            for i in range(calls):
                server.get_many(range(i % 2, min(keys, 2_000), 2))
            asked = calls * len(range(0, min(keys, 2_000), 2))
            out.setdefault("get of 1,000", []).append(max(server.cpu() - began, 1 / _TICKS) / asked)
    shutil.rmtree(root)
    return out


def _fill(work: Workload, keys: int, engine: ps.Engine, server: _Server) -> None:
    lines = work.every_key(keys)
    engine.put_many(TABLE, lines)
    for part in cut(lines, _BATCH):
        server.upsert(part)


class _Server:
    """A server of the app in processes of its own."""

    def __init__(self, root: Path) -> None:
        (root / "app.py").write_text(_APP)
        command = [sys.executable, "-m", "penstock", "serve", "--drain", "0"]
        for port in ("http", "grpc", "metrics", "control"):
            command += [f"--{port}", "127.0.0.1:0"]
        env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        self._process = subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said += line
            if "access token" in line:
                break
        ports = dict(re.findall(r"(gRPC|HTTP) on (?:http://)?127.0.0.1:(\d+)", said))
        self._headers = {"authorization": f"Bearer {said.split()[-1]}"}
        self._channel = grpc.insecure_channel(f"127.0.0.1:{ports['gRPC']}")
        self._stub = service_stub(self._channel)
        self._connection = http.client.HTTPConnection("127.0.0.1", int(ports["HTTP"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._connection.close()
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def cpu(self) -> float:
        """Return the seconds of CPU of the front and the holder."""
        pid, ticks = self._process.pid, 0
        for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS

    def upsert(self, lines: Sequence[bytes]) -> None:
        """Put lines over gRPC."""
        self._call("Upsert", pb.UpsertRequest(table=TABLE, lines=b"\n".join(lines)))

    def get(self, city: str) -> None:
        """Get one group over gRPC."""
        self._call("Get", pb.GetRequest(of="by_city", keys=[json_field(city)], consistency=pb.LINEARIZABLE))

    def get_many(self, keys: Sequence[int]) -> None:
        """Get documents over gRPC."""
        self._call("Get", pb.GetRequest(of=TABLE, keys=[b"%d" % key for key in keys]))

    def post(self, lines: Sequence[bytes]) -> None:
        """Put lines over HTTP."""
        self._ask("POST", f"/v1/tables/{TABLE}", b"\n".join(lines))

    def fetch(self, city: str) -> None:
        """Get one group over HTTP."""
        self._ask("GET", f"/v1/views/by_city?group={city}", None)

    def _call(self, name: str, request: Any) -> None:
        self._stub[name](request, metadata=tuple(self._headers.items()))

    def _ask(self, method: str, path: str, body: bytes | None) -> None:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status in (200, 404), answer.status  # in a small store a city may be empty
