"""`penstock run` beside a Wallaroo worker: kills of the process lose nothing and repeat nothing."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load as load_app
from tests.cli.loading import STORE
from tests.cli.running_process import ended, running
from tests.spout.wallaroo_worker import COOKIE, Worker, expected, found, message

APP = """
import penstock as ps
app = ps.App("shop")
orders = app.table("orders", key="id")
orders.view("sums", key="name", reduce={"n": ps.count(), "sum": ps.sum("v")})
"""


@contextmanager
def listening(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run the command, and wait until it listens."""
    with running(f"orders=wallaroo://127.0.0.1:{port}?cookie={COOKIE}", cwd=folder) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "workers connect to" in line:
                break
        yield child


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_a_run_that_is_killed_goes_on_with_its_worker(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    choose, port = random.Random("run wallaroo"), free_port()
    with Worker() as worker:
        for _ in range(4):
            with listening(tmp_path, port) as child:
                kill, decided = choose.randrange(1, 5), worker.decided
                with suppress(OSError):
                    worker.connect(("127.0.0.1", port))
                    while worker.decided < decided + kill:
                        worker.send(*(message(len(worker.sent) + i) for i in range(choose.randrange(1, 9))))
                        assert worker.prepare()
                        worker.decide()
                child.send_signal(signal.SIGKILL)
        with listening(tmp_path, port) as child:
            worker.connect(("127.0.0.1", port))
            worker.fence()
            code, _, said = ended(child)
    assert (code, "Traceback" in said) == (0, False)
    with ps.open(load_app(str(tmp_path / "app.py")), tmp_path / STORE, readonly=True) as engine:
        assert found(engine) == expected(worker.sent)
