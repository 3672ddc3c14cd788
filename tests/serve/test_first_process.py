"""A real server: its processes end and begin again, and no answered write is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import penstock as ps
from tests.serve.serving import APP, RunningServer, put
from tests.serve.stops import lost, stop_under_load, wait_gone
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def until(server: RunningServer, path: str, status: int) -> None:
    """Ask until the status comes."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        try:
            if server.ask("GET", path).status == status:
                return
        except OSError:
            pass  # the connection went with its front
        pause.wait(0.02)
    raise AssertionError(f"{path} never had the status {status}")


def test_a_front_and_the_holder_begin_again(tmp_path: Path) -> None:
    with RunningServer(tmp_path) as server:
        assert put(server, {"id": 1, "ts": 1, "country": "NO"}).json["applied"] == 1
        assert server.ask("GET", "/healthz").status == 200  # so the put before it is counted
        first = server.children()
        os.kill(first["front"], signal.SIGKILL)
        until(server, "/readyz", 200)
        assert server.children()["front"] != first["front"]
        os.kill(first["holder"], signal.SIGKILL)
        until(server, "/readyz", 200)
        assert put(server, {"id": 2, "ts": 1, "country": "NO"}).json["applied"] == 1
        assert server.ask("GET", "/v1/views/revenue?group=NO").json["value"]["n"] == 2
        metrics = server.ask("GET", "/metrics", port=server.metrics_port).body.decode()
        assert 'http_route="/v1/tables/{name}"} 2.0' in metrics, metrics
        children = server.children()
        assert children["holder"] != first["holder"]
        server.process.kill()
        server.process.wait()
        for pid in children.values():
            wait_gone(pid)
    assert "is begun again" in server.errors


@pytest.mark.parametrize(("strike", "options"), [("stop", ["--in-process"]), ("kill the holder", ["--fronts", "2"])])
def test_a_stop_under_load_loses_no_answered_write(tmp_path: Path, strike: str, options: list[str]) -> None:
    answered = stop_under_load(tmp_path, strike, options)
    assert lost(tmp_path, answered) == []
    assert lost(tmp_path, [*answered, -7]) == [-7]


def test_writes_go_to_a_holder_that_runs_already(tmp_path: Path) -> None:
    scope: dict[str, ps.App] = {}
    exec(APP, scope)
    with ps.open(scope["app"], tmp_path / "penstock-state") as engine, RunningServer(tmp_path) as server:
        assert put(server, {"id": 1, "ts": 1, "country": "NO"}).json["applied"] == 1
        assert engine.meters.tables["orders"].applied == 1
        engine.close()
        until(server, "/readyz", 200)
        assert put(server, {"id": 2, "ts": 1, "country": "NO"}).json["applied"] == 1
        assert server.stop(signal.SIGINT) == 0


def refused(folder: Path, *options: str) -> tuple[int, str]:
    (folder / "app.py").write_text(APP)
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode, done.stderr


def test_a_store_that_another_app_made_is_refused_by_name(tmp_path: Path) -> None:
    with ps.open(ps.App("other"), tmp_path / "penstock-state"):
        pass
    code, text = refused(
        tmp_path,
        "--http",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
    )
    assert (code, "Traceback" in text) == (3, False), text
    assert "other" in text
