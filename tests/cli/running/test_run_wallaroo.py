"""`penstock run` beside a Wallaroo worker: kills of the process lose nothing and repeat nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load as load_app
from tests.cli.loading import STORE
from tests.cli.running_process import ended, running, until
from tests.spout.wallaroo_worker import COOKIE, Worker, expected, found, free_port, message
from tests.waiting import PATIENCE

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


MIRROR = """
import penstock as ps
app = ps.App("mirror")
app.table("sums", key="key")
"""


def test_a_run_feeds_another_one_however_often_either_is_killed(tmp_path: Path) -> None:
    """Each round kills the sender or the receiver by SIGKILL, and both are started again."""
    sender, receiver, port = tmp_path / "sender", tmp_path / "receiver", free_port()
    for folder, app in ((sender, APP), (receiver, MIRROR)):
        folder.mkdir()
        (folder / "app.py").write_text(app)
    source, sink = "orders=file:orders.jsonl", f"sums=wallaroo://127.0.0.1:{port}?cookie={COOKIE}"
    into = f"sums=wallaroo://127.0.0.1:{port}?cookie={COOKIE}&envelope=view"
    names: dict[str, dict[str, int]] = {}
    for n in range(4):
        with (sender / "orders.jsonl").open("a") as file:
            for i in range(20 * n, 20 * n + 20):
                file.write(json.dumps({"id": i, "name": f"n{i % 3}", "v": i}) + "\n")
                own = names.setdefault(f"n{i % 3}", {"n": 0, "sum": 0})
                own["n"], own["sum"] = own["n"] + 1, own["sum"] + i
        with running(into, cwd=receiver) as second, running(f"{source}?follow=1", sinks=[sink], cwd=sender) as first:
            if n % 2:
                until(lambda: mirrored(receiver) is not None, second)
            else:
                until(lambda: mirrored(receiver) == names, second)
            (first if n in (1, 2) else second).send_signal(signal.SIGKILL)
    with running(into, cwd=receiver) as second, running(source, sinks=[sink], cwd=sender) as first:
        assert first.wait(PATIENCE) == 0, first.communicate()
        until(lambda: mirrored(receiver) == names, second)
        assert ended(second)[0] == 0


def mirrored(receiver: Path) -> dict[str, dict[str, int]] | None:
    """Return the rows in the second store, or None before it has any."""
    app = load_app(str(receiver / "app.py"))
    with suppress(ps.StoreMissing), ps.open(app, receiver / STORE, readonly=True) as engine, engine.snapshot() as snap:
        table = snap.table("sums")
        found = {key: table.get(key) for key in ("n0", "n1", "n2")}
        return {key: doc["value"] for key, doc in found.items() if doc is not None} or None
    return None
