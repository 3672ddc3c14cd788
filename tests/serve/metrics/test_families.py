"""Metrics of a server: each name of the guide is there, labels are bounded, and numbers agree with the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

import penstock as ps
from penstock.serve.http.routes import routes_of_api
from penstock.serve.store.call_meters import BOUNDS, STATUSES, CallMeters
from penstock.serve.store.store_access import HolderAbsent
from tests.serve.asgi import AsgiServer, lines, shop
from tests.serve.http.test_routes import DOCUMENTS, BrokenAccess

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "service.md"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
LABELS = {
    "table": {"orders"},
    "view": {"revenue", "by_day"},
    "outcome": {"applied", "equal", "late", "held", "rejected"},
    "kind": {"file", "used", "reusable"},
    "partition": {"0", "1"},
    "to": {"0", "1"},
    "reason": {"token", "slow", "length", "host", "busy", "unavailable", "deadline"},
    "http_request_method": {"GET", "POST", "DELETE", "other"},
    "http_route": {path for _, path in routes_of_api()} | {"other"},
    "http_response_status_code": {*map(str, STATUSES), "other"},
}


@pytest.fixture(params=[1, 2])
def server(request: pytest.FixtureRequest) -> Iterator[AsgiServer]:
    app = shop()
    with AsgiServer(ps.open(app, None, partitions=request.param), app) as own:
        own.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS, b"no json"))
        own.ask("GET", "/v1/views/revenue?group=NO")
        for path in ("/v1/views/x1?group=2", "/v1/views/x2?group=2", "/secret1", "/secret2"):
            own.ask("GET", path)
        own.ask("GET", "/v1/status", authorization="")
        own.ask("BREW", "/v1/status")
        yield own


def values(server: AsgiServer, **headers: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return all samples by name and labels."""
    answer = server.ask("GET", "/metrics", **headers)
    assert answer.status == 200
    parse = openmetrics if "openmetrics" in answer.headers["content-type"] else prometheus
    found = {}
    for family in parse(answer.body.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


@pytest.mark.parametrize("accept", ["text/plain", OPENMETRICS])
def test_numbers_agree_with_the_store(server: AsgiServer, accept: str) -> None:
    found = values(server, accept=accept)
    applied = ("penstock_records_total", (("outcome", "applied"), ("table", "orders")))
    assert found[applied] == 10
    assert found["penstock_records_total", (("outcome", "rejected"), ("table", "orders"))] == 1
    assert found["penstock_documents", (("table", "orders"),)] == 10
    assert found["penstock_view_groups", (("view", "revenue"),)] == 2
    assert found["penstock_quarantine_records", (("table", "orders"),)] == 1
    assert found["penstock_batch_records_sum", ()] == 11
    assert found["penstock_commit_seconds_count", ()] == 1
    assert found["penstock_queue_seconds_count", ()] == 1
    assert found["penstock_rejected_requests_total", (("reason", "token"),)] == 1
    assert found["penstock_holder_up", ()] == 1
    route = (("http_request_method", "POST"), ("http_response_status_code", "200"), ("http_route", "/v1/tables/{name}"))
    assert found["http_server_request_duration_seconds_count", route] == 1
    with server.engine.snapshot() as snap:
        positions = [snap.position] if isinstance(snap.position, int) else snap.position
    assert [found["penstock_position", (("partition", str(i)),)] for i in range(len(positions))] == list(positions)


def test_labels_are_names_of_the_catalog_and_of_routes(server: AsgiServer) -> None:
    for name, labels in values(server):
        for label, value in labels:
            if label not in ("le", "version"):
                assert value in LABELS[label], (name, label, value)


def test_the_guide_names_all_metrics(server: AsgiServer) -> None:
    text = server.ask("GET", "/metrics", accept=OPENMETRICS).body.decode()
    served = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    section = GUIDE.read_text("utf-8").partition("## Metrics")[2].partition("\n## ")[0]
    named = {re.sub(r"_total$|_info$", "", name) for name in re.findall(r"`((?:penstock|http|rpc)_\w+)", section)}
    assert named == served


def test_a_scrape_without_a_holder_has_all_but_its_meters() -> None:
    app = shop()
    engine = ps.open(app, None)
    with AsgiServer(engine, app, BrokenAccess(engine, HolderAbsent("state"))) as server:
        found = values(server)
        assert found["penstock_holder_up", ()] == 0
        assert ("penstock_commits_total", ()) not in found
        assert found["penstock_position", (("partition", "0"),)] == 0


def test_metrics_need_the_token() -> None:
    app = shop()
    with AsgiServer(ps.open(app, None), app) as server:
        assert server.ask("GET", "/metrics", authorization="").status == 401
        assert server.ask("GET", "/metrics").headers["content-type"].startswith("text/plain")


def test_watchers_are_counted_while_they_watch() -> None:
    app = shop()

    async def watched(server: AsgiServer) -> list[int]:
        seen = []
        async for message in server.messages("GET", "/v1/events"):
            if message.get("body"):
                seen.append(server.calls.watchers())
                server.service.events.end()
        await asyncio.gather(
            *(t for t in asyncio.all_tasks() if t is not asyncio.current_task()), return_exceptions=True
        )
        return seen

    with AsgiServer(ps.open(app, None), app) as server:
        assert server.run(watched(server)) == [1]
        assert server.calls.watchers() == 0


def test_a_front_that_is_begun_again_goes_on_counting() -> None:
    calls = CallMeters([("GET", "/a")], 2)
    calls.front(0).count(("GET", "/a"), 200, 0.0005)
    calls.front(0).watching(7)
    again, other = calls.front(0), calls.front(1)
    again.count(("GET", "/a"), 200, 20.0)
    other.count(("GET", "/a"), 299, 0.1)
    counts, seconds = calls.calls()[("GET", "/a"), 200]
    assert (counts[0], counts[-1], sum(counts), len(counts)) == (1, 1, 2, len(BOUNDS) + 1)
    assert seconds == pytest.approx(20.0005)
    assert sum(calls.calls()[("GET", "/a"), -1][0]) == 1
    assert calls.watchers() == 0
