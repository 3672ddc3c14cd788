"""A real server for tests: `penstock serve` on a free port of loopback, with the app below, ended by its own id."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE

APP = """
import penstock as ps

app = ps.App("shop")
orders = app.table("orders", key="id", ts="ts")
revenue = orders.view("revenue", key="country", reduce={"n": ps.count(), "total": ps.sum("amount")})
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class RunningServer:
    """A server in a folder, as a context manager."""

    def __init__(self, folder: Path, *options: str, app: str = APP) -> None:
        self.folder = folder
        self._app = app
        self._options = options
        self.tls: ssl.SSLContext | None = None
        """The context of connections, for a server with TLS."""
        self.port, self.metrics_port, self.rpc_port, self.control_port, self.token = 0, 0, 0, 0, ""

    def __enter__(self) -> Self:
        (self.folder / "app.py").write_text(self._app)
        command = [sys.executable, "-m", "penstock", "serve", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        command += ["--grpc", "127.0.0.1:0", "--control", "127.0.0.1:0", "--drain", "0", *self._options]
        root = str(Path(__file__).resolve().parents[2])
        errors = (self.folder / "err.txt").open("wb")
        self.process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": root},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        errors.close()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if metrics := re.search(r"metrics on https?://127.0.0.1:(\d+)/", line):
                self.metrics_port = int(metrics[1])
            if rpc := re.search(r"gRPC on 127.0.0.1:(\d+), control plane on 127.0.0.1:(\d+)", line):
                self.rpc_port, self.control_port = int(rpc[1]), int(rpc[2])
            found = re.search(r"HTTP on https?://127.0.0.1:(\d+), access token of this run: (\S+)", line)
            if found:
                self.port, self.token = int(found[1]), found[2]
                return self
        raise AssertionError(f"the server ended: {self.errors}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def errors(self) -> str:
        """Return standard error so far."""
        return (self.folder / "err.txt").read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the first process. Return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def children(self) -> dict[str, int]:
        """Return the process ids of the holder and of a front."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        out = {}
        for pid in text.split():
            files = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
            holds = any(file.endswith("penstock-state/owner") for file in files)
            out["holder" if holds else "front"] = int(pid)
        return out

    @property
    def headers(self) -> dict[str, str]:
        """Return the header with the access token."""
        return {"authorization": f"Bearer {self.token}"}

    def connection(self, port: int = 0) -> http.client.HTTPConnection:
        """Return a connection to the API, or to another port."""
        if self.tls is not None:
            return http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=PATIENCE, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=PATIENCE)

    def ask(self, method: str, path: str, body: bytes | None = None, port: int = 0, **headers: str) -> Answer:
        """Send one request with the access token on a connection of its own."""
        connection = self.connection(port)
        try:
            own = self.headers | {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, body, own)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()


def put(server: RunningServer, *documents: dict[str, Any]) -> Answer:
    """Put documents into the table of the app."""
    return server.ask("POST", "/v1/tables/orders", b"\n".join(json.dumps(one).encode() for one in documents))
