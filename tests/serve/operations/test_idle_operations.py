"""Operations of a real server. Some need the store for themselves: reads go on, and no write is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.engine import partitions_of
from tests.serve.serving import APP, RunningServer, put
from tests.waiting import PATIENCE


def ended(server: RunningServer, path: str, body: bytes = b"{}") -> dict[str, Any]:
    """Start an operation, read the store until it ends, and return its record."""
    begun = server.ask("POST", path, body)
    assert begun.status == 202, begun
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        try:
            assert server.ask("GET", "/v1/views/revenue?group=NO").status == 200
            found: dict[str, Any] = server.ask("GET", begun.headers["location"]).json
            if found["state"] not in ("waiting", "running"):
                return found
        except OSError:
            pass  # the connection went with its front
        pause.wait(0.05)
    raise AssertionError(f"{path} never ended: {server.errors}")


def put_again(server: RunningServer, document: dict[str, Any]) -> None:
    """Repeat a put until a holder takes it."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        try:
            answer = put(server, document)
            if answer.status == 200:
                return
            assert answer.status == 503, answer
        except OSError:
            pass
        pause.wait(0.05)
    raise AssertionError(f"no put succeeds: {server.errors}")


def shown(server: RunningServer, value: dict[str, Any]) -> None:
    """Wait until the view has a value: over several partitions it follows a commit behind."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        found = server.ask("GET", "/v1/views/revenue?group=NO").json["value"]
        if found == value:
            return
        pause.wait(0.05)
    raise AssertionError(found)


def test_partitions_come_and_go_and_a_snapshot_comes_back(tmp_path: Path) -> None:
    store = tmp_path / "penstock-state"
    with RunningServer(tmp_path) as server:
        put(server, {"id": 1, "ts": 1, "country": "NO", "amount": 2})
        assert server.ask("POST", "/v1/partitions/remove").status == 409
        (tmp_path / "app.py").write_text(APP + 'orders.view("more", key="id", reduce=ps.count())\n')
        preview = ended(server, "/v1/migrate?dry_run=1")
        assert [own["view"] for own in preview["result"]["changes"]] == ["more"], preview
        assert ended(server, "/v1/snapshot", b'{"path": "first"}')["state"] == "done"
        added = ended(server, "/v1/partitions/add")
        assert (added["state"], added["result"]["after"]) == ("done", 2), added
        put_again(server, {"id": 2, "ts": 1, "country": "NO", "amount": 3})
        assert partitions_of(str(store)) == 2
        shown(server, {"n": 2, "total": 5})
        restored = ended(server, "/v1/restore", b'{"path": "first", "force": true}')
        assert restored["state"] == "done", restored
        put_again(server, {"id": 3, "ts": 1, "country": "NO", "amount": 4})
        shown(server, {"n": 2, "total": 6})
        assert server.ask("POST", "/v1/restore", b'{"path": "none", "force": true}').status == 400
        assert server.ask("POST", "/v1/restore", b'{"path": "first"}').status == 400
    assert not list(tmp_path.glob("*.reading"))
    scope: dict[str, ps.App] = {}
    exec(APP, scope)
    with ps.open(scope["app"], store) as engine, engine.snapshot() as snap:
        assert [key for key in range(5) if key in snap.table("orders")] == [1, 3]
        assert engine.check().ok
