"""Operations over HTTP: each kind, its progress, its result, its refusals and its line in the audit log."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.remote import ReaderClaim
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, TokenFile, digest_of
from penstock.serve.operations.snapshot_manifest import check_manifest
from penstock.serve.store.store_access import HolderAbsent, LocalAccess
from tests.serve.asgi import TOKEN, AsgiServer, lines, shop
from tests.serve.serving import Answer
from tests.waiting import PATIENCE

DOCUMENTS = [{"id": i, "ts": 1, "country": "NO" if i % 2 else "SE", "day": i % 3, "amount": i} for i in range(10)]
BAD = [{"name": "no key"}, {"id": 99, "ts": 1, "country": "NO", "amount": "text"}]


@pytest.fixture(params=[1, 2])
def server(request: pytest.FixtureRequest) -> Iterator[AsgiServer]:
    app = shop()
    with AsgiServer(ps.open(app, None, partitions=request.param), app) as own:
        own.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS, *BAD))
        yield own


def ended(server: AsgiServer, begun: Answer) -> dict[str, Any]:
    """Follow an operation to its end; its last record."""
    assert begun.status == 202, begun
    events = server.ask("GET", begun.headers["location"] + "/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    seen = [json.loads(line.removeprefix(b"data: ")) for line in events.body.split(b"\n\n") if line.startswith(b"data")]
    last: dict[str, Any] = server.ask("GET", begun.headers["location"]).json
    assert seen[-1] == last
    assert last["done"] == last["total"] or last["state"] != "done"
    return last


def run(server: AsgiServer, path: str, /, **given: Any) -> dict[str, Any]:
    return ended(server, server.ask("POST", path, json.dumps(given).encode(), content_type="application/json"))


def audit(server: AsgiServer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(server.operations.audit.path).read_text().splitlines()]


def test_each_repair_runs(server: AsgiServer) -> None:
    checked = run(server, "/v1/check")
    assert (checked["kind"], checked["by"], checked["state"]) == ("Check", "test", "done")
    assert checked["total"] > 0
    assert (checked["result"]["ok"], checked["result"]["documents"], checked["result"]["held"]) == (
        True,
        11,
        {"revenue": 1},
    )
    assert run(server, "/v1/restate", name="revenue", group="NO")["result"] == {"repaired": [], "total": 0}
    assert run(server, "/v1/restate", name="orders", group=3)["result"]["total"] == 0
    assert run(server, "/v1/repost", table="orders", documents=[DOCUMENTS[3] | {"country": "DK"}])["state"] == "done"
    entries = server.ask("GET", "/v1/quarantine").json["entries"]
    assert sorted(own["kind"] for own in entries) == ["document", "record"]
    [record] = server.ask("GET", "/v1/quarantine?kind=record&whole=1").json["entries"]
    assert record["document"] == BAD[0]
    assert run(server, "/v1/quarantine/retry")["result"]["left"] == 2
    done = run(server, "/v1/quarantine/drop", ids=[entries[0]["id"], record["id"]])["result"]
    assert (done["dropped"], done["summary"]) == (1, "1 dropped"), (entries, done)
    assert run(server, "/v1/compact")["result"]["records"] >= 0
    listed = server.ask("GET", "/v1/operations").json["operations"]
    assert [own["kind"] for own in listed] == ["Compact", "Drop", "Retry", "Repost", "Restate", "Restate", "Check"]
    assert {(own["operation"], own["outcome"]) for own in audit(server)} == {(own["kind"], "done") for own in listed}
    assert {"table": "orders", "documents": 1} in [own["about"] for own in audit(server)]
    assert TOKEN not in Path(server.operations.audit.path).read_text()


def test_the_quarantine_has_pages(server: AsgiServer) -> None:
    server.ask("POST", "/v1/tables/orders", lines(*({"name": str(i)} for i in range(5))))
    seen, after = list[str](), ""
    while True:
        page = server.ask("GET", f"/v1/quarantine?limit=2{after}").json
        assert len(page["entries"]) <= 2
        seen += [own["id"] for own in page["entries"]]
        if "after" not in page:
            break
        after = f"&after={page['after']}"
    assert len(seen) == len(set(seen)) == 7
    assert server.ask("GET", "/v1/quarantine?after=r77").status == 410
    assert server.ask("GET", "/v1/quarantine?view=by_day").json == {"entries": []}
    assert server.ask("GET", f"/v1/quarantine?id={seen[0]}").json["entries"][0]["id"] == seen[0]


@pytest.mark.parametrize(
    ("path", "given", "status", "text"),
    [
        ("/v1/check", {"fixx": True}, 400, "fix"),
        ("/v1/check", {"fix": 1}, 400, "fix"),
        ("/v1/check", [], 400, "object"),
        ("/v1/restate", {}, 400, "name"),
        ("/v1/restate", {"name": "revnue"}, 404, "revenue"),
        ("/v1/repost", {"table": "revenue", "documents": []}, 404, "revenue"),
        ("/v1/quarantine/drop", {}, 400, "selection"),
        ("/v1/quarantine/retry", {"kind": "thing"}, 400, "document"),
        ("/v1/quarantine/retry", {"limit": 0}, 400, "1 or more"),
        ("/v1/quarantine/retry", {"view": "none"}, 404, "none"),
        ("/v1/snapshot", {"path": "../x"}, 400, "relative path"),
        ("/v1/snapshot", {"path": "/x"}, 400, "relative path"),
        ("/v1/snapshot", {"path": ""}, 400, "relative path"),
        ("/v1/migrate", {}, 409, "penstock migrate"),
        ("/v1/migrate?dry_run=1", {}, 409, "--app"),
        ("/v1/migrate?dry_run=soon", {}, 400, "dry_run"),
        ("/v1/partitions/add", {}, 409, "in memory"),
        ("/v1/partitions/remove", {"id": "x"}, 400, "id"),
        ("/v1/restore", {"path": "none"}, 400, "no complete snapshot"),
        ("/v1/operations/7/cancel", {}, 404, "/v1/operations"),
    ],
)
def test_a_wrong_request_begins_nothing(path: str, given: Any, status: int, text: str) -> None:
    app = shop()
    with AsgiServer(ps.open(app, None), app) as server:
        answer = server.ask("POST", path, json.dumps(given).encode())
        assert (answer.status, text in answer.json["error"]["message"]) == (status, True), answer
        assert server.ask("GET", "/v1/operations").json == {"operations": []}
        assert server.ask("GET", "/v1/operations/1").status == 404
        assert server.ask("GET", "/v1/operations/1/events").status == 404


def test_a_server_of_one_process_does_not_give_its_store_away(tmp_path: Path) -> None:
    app = shop()
    with AsgiServer(ps.open(app, tmp_path / "state"), app) as server:
        for path, text in (("add", "penstock repartition"), ("remove", "no key would have an owner")):
            answer = server.ask("POST", f"/v1/partitions/{path}")
            assert (answer.status, text in answer.json["error"]["message"]) == (409, True), answer
        assert server.ask("POST", "/v1/partitions/add", b'{"id": 7}').status == 400
        assert server.ask("POST", "/v1/partitions/remove", b'{"id": 7}').status == 400


def test_a_role_that_may_not_is_in_the_audit_log(tmp_path: Path) -> None:
    app = shop()
    file = TokenFile(str(tmp_path / "tokens"))
    secret = file.add("board", Role.READ, None, None)
    book = TokenBook(AccessToken("test", Role.ADMIN, digest_of(TOKEN)), file)
    with AsgiServer(ps.open(app, None), app, tokens=book) as server:
        assert server.ask("POST", "/v1/check", authorization=f"Bearer {secret}").status == 403
        [line] = audit(server)
        assert (line["by"], line["operation"], line["outcome"]) == ("board", "POST /v1/check", "refused")
        assert secret not in Path(server.operations.audit.path).read_text()


class SteppedAccess(LocalAccess):
    """A holder whose operations take a step when they are told to."""

    def __init__(self, engine: ps.Engine, error: Exception | None = None) -> None:
        super().__init__(engine)
        self.reached, self.go = threading.Event(), threading.Event()
        self.error = error

    def call(self, operation: Any, progress: Any = None, /, **arguments: Any) -> Any:
        progress(1, 4)
        self.reached.set()
        while not self.go.wait(0.01):
            progress(2, 4)
        if self.error is not None:
            raise self.error
        return super().call(operation, progress, **arguments)


def test_a_second_one_is_refused_and_the_first_can_be_cancelled() -> None:
    app = shop()
    engine = ps.open(app, None)
    access = SteppedAccess(engine)
    with AsgiServer(engine, app, access) as server:
        first = server.ask("POST", "/v1/compact")
        assert access.reached.wait(PATIENCE)
        second = server.ask("POST", "/v1/compact")
        assert (second.status, "/v1/operations/1" in second.json["error"]["message"]) == (409, True)
        asked = server.ask("POST", "/v1/operations/1/cancel")
        assert (asked.status, asked.json["state"]) == (202, "running")
        last = ended(server, first)
        assert (last["state"], last["error"], last["total"]) == ("cancelled", "the operator cancelled it", 4)
        access.go.set()
        assert run(server, "/v1/compact")["state"] == "done"
        outcomes = [(own["operation"], own["outcome"]) for own in audit(server)]
        assert outcomes == [("Compact", "refused"), ("Cancel", "asked"), ("Compact", "cancelled"), ("Compact", "done")]


@pytest.mark.parametrize(("error", "text"), [(HolderAbsent("state"), "at present"), (ValueError("x"), "a fault of")])
def test_an_operation_that_fails_says_why(error: Exception, text: str) -> None:
    app = shop()
    engine = ps.open(app, None)
    access = SteppedAccess(engine, error)
    access.go.set()
    with AsgiServer(engine, app, access) as server:
        last = run(server, "/v1/compact")
        assert (last["state"], text in last["error"]) == ("failed", True), last


def test_a_stop_ends_operations() -> None:
    app = shop()
    engine = ps.open(app, None)
    access = SteppedAccess(engine)
    with AsgiServer(engine, app, access) as server:
        server.ask("POST", "/v1/compact")
        assert access.reached.wait(PATIENCE)
        server.operations.close()
        found = server.operations.folder.find("1")
        assert found is not None
        assert (found.state.value, found.error) == ("cancelled", "the server stopped")
        assert server.ask("POST", "/v1/compact").status == 409


def test_sources_pause_and_resume(tmp_path: Path) -> None:
    app, path = shop(), tmp_path / "state"
    claim = ReaderClaim(str(path), "orders=file:a.jsonl")
    with AsgiServer(ps.open(app, path), app) as server:
        assert "no process reads" in run(server, "/v1/pause")["error"]
        claim.take()
        claim.say("reading", None, 0)
        former = {
            signal.SIGUSR1: signal.signal(signal.SIGUSR1, lambda *_: claim.say("paused", None, 0)),
            signal.SIGUSR2: signal.signal(signal.SIGUSR2, lambda *_: claim.say("reading", None, 0)),
        }
        try:
            paused = run(server, "/v1/pause", source="orders=file:a.jsonl")
            assert [own["state"] for own in paused["result"]["sources"]] == ["paused"], paused
            assert "sources that are read: orders=file:a.jsonl" in run(server, "/v1/resume", source="x")["error"]
            assert [own["state"] for own in run(server, "/v1/resume")["result"]["sources"]] == ["reading"]
        finally:
            claim.release()
            for number, handler in former.items():
                signal.signal(number, handler)


def test_a_snapshot_has_a_manifest_with_the_digest_of_each_file(tmp_path: Path) -> None:
    app = shop()
    engine = ps.open(app, tmp_path / "state", partitions=2, processes=False)
    with AsgiServer(engine, app) as server:
        server.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS))
        done = run(server, "/v1/snapshot", path="monday")["result"]
        folder = Path(done["path"])
        manifest = json.loads((folder / "manifest.json").read_text())
        assert (manifest["digest"], manifest["app"]) == (engine.digest(), "shop")
        assert manifest["ranges"] == ["0000000000000000-8000000000000000", "8000000000000000-10000000000000000"]
        for own in manifest["files"]:
            data = (folder / own["name"]).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (own["bytes"], own["sha256"])
        assert {Path(own["name"]).name for own in manifest["files"]} >= {"data.mdb"}
        check_manifest(str(folder), lambda done, total: None)
        (folder / manifest["files"][0]["name"]).write_bytes(b"other")
        with pytest.raises(PenstockError, match="not the file of the manifest"):
            check_manifest(str(folder), lambda done, total: None)
        (folder / "manifest.json").unlink()
        with pytest.raises(PenstockError, match="not complete"):
            check_manifest(str(folder), lambda done, total: None)
        assert run(server, "/v1/snapshot", path="monday")["state"] == "failed"
