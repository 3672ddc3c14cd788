"""Whole requests and answers of the HTTP API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

import penstock as ps
from penstock.cache import StoreFull
from penstock.serve.http.openapi import description_of
from penstock.serve.http.routes import HttpService
from penstock.serve.store.store_access import HolderAbsent, LocalAccess
from tests.serve.asgi import AsgiServer, lines, shop
from tests.serve.serving import Answer

DOCUMENTS = [{"id": i, "ts": 1, "country": "NO" if i % 2 else "SE", "day": i % 3, "amount": i} for i in range(10)]


@pytest.fixture(params=[1, 2])
def server(request: pytest.FixtureRequest) -> Iterator[AsgiServer]:
    app = shop()
    with AsgiServer(ps.open(app, None, partitions=request.param), app) as own:
        yield own


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]


def test_documents_are_put_read_and_deleted(server: AsgiServer) -> None:
    done = server.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS, b"no json", {"id": 1, "ts": 0}))
    assert (done.status, {k: done.json[k] for k in ("applied", "late", "rejected")}) == (
        200,
        {"applied": 10, "late": 1, "rejected": 1},
    )
    [rejection] = done.json["rejections"]
    assert (rejection["table"], rejection["place"]) == ("orders", "line 11")
    got = server.ask("GET", "/v1/tables/orders?key=3")
    assert (got.status, got.json["value"], got.json["position"]) == (200, DOCUMENTS[3], done.json["position"])
    row = server.ask("GET", '/v1/views/revenue?group="NO"')
    assert row.json["value"] == {"n": 5, "total": 25}
    gone = server.ask("DELETE", "/v1/tables/orders?key=3&ts=7")
    assert gone.json["applied"] == 1
    assert code(server.ask("GET", "/v1/tables/orders?key=3")) == (404, "no document")
    assert server.ask("GET", "/v1/views/revenue?group=NO").json["value"] == {"n": 4, "total": 22}
    assert server.ask("GET", "/v1/status").json["tables"]["orders"]["documents"] == 9


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (lines(*DOCUMENTS[:2]), "application/x-ndjson"),
        (lines(*DOCUMENTS[:2]) + b"\n\n", "text/plain; charset=utf-8"),
        (json.dumps(DOCUMENTS[:2], indent=2).encode(), "application/json"),
    ],
)
def test_a_body_has_several_forms(server: AsgiServer, body: bytes, kind: str) -> None:
    assert server.ask("POST", "/v1/tables/orders", body, content_type=kind).json["applied"] == 2
    assert server.ask("GET", "/v1/tables/orders?key=1").json["value"] == DOCUMENTS[1]


def test_one_document_as_json(server: AsgiServer) -> None:
    body = json.dumps(DOCUMENTS[1], indent=1).encode()
    assert server.ask("POST", "/v1/tables/orders", body, content_type="application/json").json["applied"] == 1


def test_a_strict_request_is_undone(server: AsgiServer) -> None:
    done = server.ask("POST", "/v1/tables/orders?strict=1", lines(DOCUMENTS[1], {"wrong": 1}))
    assert code(done) == (400, "bad request")
    assert [own["place"] for own in done.json["error"]["rejections"]] == ["line 2"]
    assert code(server.ask("GET", "/v1/tables/orders?key=1")) == (404, "no document")


def test_numbered_writes_conditions_and_dry_runs(server: AsgiServer) -> None:
    path = "/v1/tables/orders?session=s&number=1"
    assert server.ask("POST", path + "&dry_run=1", lines(*DOCUMENTS[:2])).json["applied"] == 2
    first = server.ask("POST", path, lines(*DOCUMENTS[:2])).json
    assert (first["applied"], first["upto"]) == (2, 2)
    again = server.ask("POST", path, lines(*DOCUMENTS[:2])).json
    assert (again["late"], again["upto"]) == (2, 2)
    gap = server.ask("DELETE", "/v1/tables/orders?key=1&ts=2&session=s&number=4")
    assert (code(gap), gap.json["error"]["upto"]) == ((409, "session gap"), 2)
    absent = quote('[{"key": 1, "absent": true}, {"key": 7, "absent": true}]')
    failed = server.ask("POST", f"/v1/tables/orders?conditions={absent}", lines(DOCUMENTS[7]))
    assert code(failed) == (409, "condition failed")
    assert failed.json["error"]["failed"] == {"1": "a document of ts 1"}
    held = quote('[{"key": 1, "ts": 1}]')
    assert server.ask("DELETE", f"/v1/tables/orders?key=1&ts=2&conditions={held}").json["applied"] == 1
    for wrong in ("x", "{}", '[{"key": 1}]', '[{"key": 1, "absent": false}]', '[{"key": {}, "ts": 1}]'):
        assert server.ask("POST", f"/v1/tables/orders?conditions={quote(wrong)}", b"").status == 400, wrong


def test_an_etag_saves_the_body(server: AsgiServer) -> None:
    server.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS))
    tag = server.ask("GET", "/v1/views/revenue?group=NO").headers["etag"]
    assert server.ask("GET", "/v1/views/revenue?group=NO", if_none_match=tag).status == 304
    server.ask("POST", "/v1/tables/orders", lines({"id": 1, "ts": 2, "country": "NO", "amount": 0}))
    assert server.ask("GET", "/v1/views/revenue?group=NO", if_none_match=tag).status == 200


def test_why_lists_contributions(server: AsgiServer) -> None:
    server.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS))
    found = server.ask("GET", "/v1/views/revenue/why?group=NO&documents=1").json
    assert found["total"] == 5
    assert sorted(one["document"]["amount"] for one in found["contributions"]) == [1, 3, 5, 7, 9]


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("GET", "/v1/views/revnue?group=1", (404, "unknown name")),
        ("POST", "/v1/tables/revenue", (404, "unknown name")),
        ("GET", "/v1/views/revenue", (400, "bad request")),
        ("GET", "/v1/views/revenue?group=1.5", (404, "no row")),
        ("GET", '/v1/tables/orders?key={"a":1}', (400, "bad request")),
        ("GET", "/v1/views/revenue?group=1&grup=2", (400, "bad request")),
        ("GET", "/v1/views/revenue/rows?limit=-1", (400, "bad request")),
        ("GET", "/v1/views/revenue/rows?limit=10001", (400, "bad request")),
        ("GET", "/v1/views/revenue/rows?reverse=yes", (400, "bad request")),
        ("GET", "/v1/views/revenue/rows?cursor=AAAA", (400, "bad request")),
        ("GET", "/v1/views/revenue/rows?cursor=W10", (400, "bad request")),
        ("GET", "/v1/events?since=x", (400, "bad request")),
        ("GET", "/v1/events?view=none", (404, "unknown name")),
        ("GET", "/nothing", (404, "no route")),
        ("PUT", "/v1/tables/orders", (405, "no route")),
    ],
)
def test_faults_of_requests(server: AsgiServer, method: str, path: str, answer: tuple[int, str]) -> None:
    assert code(server.ask(method, path)) == answer


def test_a_body_of_another_type_is_refused(server: AsgiServer) -> None:
    assert code(server.ask("POST", "/v1/tables/orders", b"x", content_type="image/png")) == (415, "content type")
    assert code(server.ask("POST", "/v1/tables/orders", b"[1,", content_type="application/json")) == (
        400,
        "bad request",
    )


class BrokenAccess(LocalAccess):
    """A store whose holder fails."""

    def __init__(self, engine: ps.Engine, error: Exception) -> None:
        super().__init__(engine)
        self.error = error

    def call(self, operation: Any, progress: Any = None, /, **arguments: Any) -> Any:
        raise self.error

    def trouble(self) -> str | None:
        return str(self.error)


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (HolderAbsent("state"), 503, "unavailable"),
        (StoreFull("state", "the disk is full"), 429, "store full"),
        (RuntimeError("a fault"), 500, "fault"),
    ],
)
def test_errors_of_the_holder(error: Exception, status: int, name: str) -> None:
    app = shop()
    engine = ps.open(app, None)
    with AsgiServer(engine, app, BrokenAccess(engine, error)) as server:
        done = server.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS))
        assert code(done) == (status, name)
        assert ("retry-after" in done.headers) is (status != 500)
        ready = server.ask("GET", "/readyz")
        assert (ready.status, str(error) in ready.body.decode()) == (503, True)
        assert server.ask("GET", "/healthz").status == 200


def test_the_description_names_all_routes(server: AsgiServer) -> None:
    described = {(method.upper(), path) for path, own in description_of()["paths"].items() for method in own}
    assert described == {(own.method, own.path) for own in HttpService(server.store, server.operations).routes}
    assert server.ask("GET", "/openapi.json").json == json.loads(json.dumps(description_of()))
