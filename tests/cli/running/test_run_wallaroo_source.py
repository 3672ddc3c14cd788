"""`penstock run` on both sides of `wallaroo+source://`: kills of either process lose nothing and repeat nothing."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load as load_app
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


def mirrored(receiver: Path) -> dict[str, dict[str, int]] | None:
    """Return the rows in the second store, or None before it has any."""
    app = load_app(str(receiver / "app.py"))
    with suppress(ps.StoreMissing), ps.open(app, receiver / STORE, readonly=True) as engine, engine.snapshot() as snap:
        table = snap.table("sums")
        found = {key: table.get(key) for key in ("n0", "n1", "n2")}
        return {key: doc["value"] for key, doc in found.items() if doc is not None} or None
    return None


def test_a_run_feeds_another_one_however_often_either_is_killed(tmp_path: Path) -> None:
    """A kill ends the receiver, then the sender, and both are started again."""
    sender, receiver, port = tmp_path / "sender", tmp_path / "receiver", free_port()
    for folder, app in ((sender, APP), (receiver, MIRROR)):
        folder.mkdir()
        (folder / "app.py").write_text(app)
    source, sink = "orders=file:orders.jsonl", f"sums=wallaroo+source://127.0.0.1:{port}?cookie={COOKIE}"
    into = f"sums=wallaroo+source://127.0.0.1:{port}?cookie={COOKIE}&envelope=view"
    names: dict[str, dict[str, int]] = {}
    for n in range(2):
        with (sender / "orders.jsonl").open("a") as file:
            for i in range(20 * n, 20 * n + 20):
                file.write(json.dumps({"id": i, "name": f"n{i % 3}", "v": i}) + "\n")
                own = names.setdefault(f"n{i % 3}", {"n": 0, "sum": 0})
                own["n"], own["sum"] = own["n"] + 1, own["sum"] + i
        with running(into, cwd=receiver) as second, running(f"{source}?follow=1", sinks=[sink], cwd=sender) as first:
            until(lambda: mirrored(receiver) is not None, second)
            (first if n else second).send_signal(signal.SIGKILL)
    with running(into, cwd=receiver) as second, running(source, sinks=[sink], cwd=sender) as first:
        assert first.wait(PATIENCE) == 0, first.communicate()
        assert mirrored(receiver) == names
        code, _, said = ended(second)
    assert (code, "Traceback" in said, "rejected" in said) == (0, False, False)
