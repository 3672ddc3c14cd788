"""The board and the alert rules of docs/monitoring, evaluated over scrapes of a server; the unit and the Dockerfile."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.commands.serve import serve
from penstock.remote import ReaderClaim
from tests.serve.asgi import AsgiServer, lines, shop
from tests.serve.http.test_routes import DOCUMENTS
from tests.serve.metrics.promql import Query, Scrape

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "monitoring"
ABSENT = {"penstock_building_ratio"}  # only while a view is built


def rules() -> list[tuple[str, str]]:
    """Return the alerts of the rules with their expressions; each has a summary and an action."""
    text = (FOLDER / "penstock-alerts.yml").read_text()
    found = re.findall(r"^      - alert: (\w+)\n        expr: (.+)\n((?:        .*\n)+)", text, re.MULTILINE)
    assert len(found) == text.count("- alert:") == len({name for name, _, _ in found})
    for name, _, rest in found:
        for field in ("severity:", "          summary: ", "          action: "):
            assert field in rest, (name, field)
    return [(name, expression) for name, expression, _ in found]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "penstock-board.json").read_text())["panels"]
    return found


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scrape, Scrape]]:
    """Yield two scrapes of a server with two partitions, a source, and calls between them."""
    path, app = tmp_path_factory.mktemp("monitoring") / "state", shop()
    engine = ps.open(app, path, partitions=2, processes=False)
    now = iter((1.0, 3.0))
    claim = ReaderClaim(str(path), "orders=file:a.jsonl", clock=lambda: next(now))
    claim.take()
    claim.say("reading", 24, 0)
    claim.say("reading", 12, 12)
    with AsgiServer(engine, app) as server:

        def scrape() -> Scrape:
            return Scrape.of(server.ask("GET", "/metrics").body.decode())

        server.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS))
        before = scrape()
        server.ask("POST", "/v1/tables/orders", lines(*({**own, "ts": 2, "amount": 99} for own in DOCUMENTS)))
        server.ask("GET", "/v1/views/revenue?group=NO")
        yield before, scrape()
    claim.release()


def test_each_panel_draws_something(scrapes: tuple[Scrape, Scrape]) -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels()) > 15
    for panel in panels():
        for target in panel["targets"]:
            query = Query(target["expr"], *scrapes)
            if query.selected.keys() & ABSENT:
                continue
            assert all(query.selected.values()), (panel["title"], query.selected)
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert query.result, panel["title"]
            for found in query.result:
                assert labels <= {name for name, _ in found}, (panel["title"], found)


def test_no_alert_of_a_healthy_server(scrapes: tuple[Scrape, Scrape]) -> None:
    for name, expression in rules():
        query = Query(expression, *scrapes)
        assert all(query.selected.values()), (name, query.selected)
        if name != "PenstockDisk":  # that of the machine may be full
            assert query.result == {}, (name, query.result)


def raised(scrapes: tuple[Scrape, Scrape], metric: str, value: float, **labels: str) -> set[str]:
    """Return the alerts after all samples of a metric with these labels have another value."""
    before, now = scrapes
    changed = {
        own: value if labels.items() <= dict(own).items() else known for own, known in now.samples[metric].items()
    }
    if not any(labels.items() <= dict(own).items() for own in changed):
        changed[frozenset(labels.items())] = value
    other = Scrape({**now.samples, metric: changed})
    return {name for name, expression in rules() if Query(expression, before, other).result}


@pytest.mark.parametrize(
    ("alert", "metric", "value", "labels"),
    [
        ("PenstockNoHolder", "penstock_holder_up", 0, {}),
        ("PenstockWritesRefused", "penstock_rejected_requests_total", 1000, {"reason": "busy"}),
        ("PenstockSlowCommits", "penstock_commit_seconds_bucket", 1e6, {"le": "+Inf"}),
        ("PenstockSourceBehind", "penstock_source_lag_records", 1e6, {}),
        ("PenstockHeld", "penstock_view_held", 1, {"view": "revenue"}),
        ("PenstockQuarantineGrows", "penstock_records_total", 1000, {"outcome": "rejected"}),
        ("PenstockOldSnapshot", "penstock_oldest_snapshot_seconds", 700, {}),
        ("PenstockReaders", "penstock_readers", 1000, {}),
        ("PenstockFeedShort", "penstock_feed_oldest_position", 1, {}),
        ("PenstockInFlight", "penstock_productions_pending", 1e6, {"to": "1"}),
        ("PenstockDisk", "penstock_disk_free_bytes", 1000, {}),
        (
            "PenstockDamage",
            "http_server_request_duration_seconds_count",
            1,
            {"http_response_status_code": "500", "http_route": "/v1/status"},
        ),
    ],
)
def test_each_alert_can_be_raised(
    scrapes: tuple[Scrape, Scrape], alert: str, metric: str, value: float, labels: dict[str, str]
) -> None:
    assert alert in {name for name, _ in rules()}
    assert raised(scrapes, metric, value, **labels) - {"PenstockDisk"} | {alert} == {alert}
    assert alert in raised(scrapes, metric, value, **labels)


def options_of(words: list[str]) -> set[str]:
    """Return the options in a command line of `penstock serve`; each must exist."""
    known = {option for parameter in serve.params for option in parameter.opts}
    found = {word for word in words if word.startswith("--")}
    assert found <= known, found - known
    return found


def test_the_unit_starts_a_server_that_stops_in_order() -> None:
    unit = ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(FOLDER / "penstock.service")
    service = unit["Service"]
    program, command, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("penstock", "serve")
    assert options_of(words) == {"--fronts"}
    assert service["KillMode"] == "mixed"  # the first process alone gets SIGTERM, and ends the others
    assert int(service["TimeoutStopSec"]) >= 2 + 13 + 60  # drain, fronts, holder
    assert "PENSTOCK_STORE=/var/lib/penstock/state" in service["Environment"]
    assert service["ReadWritePaths"] == "/var/lib/penstock"


def test_the_image_runs_a_server_with_tls_as_a_user() -> None:
    text = (FOLDER / "Dockerfile").read_text().replace("\\\n", "")
    steps = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in steps} <= known
    one = dict(steps)
    assert re.fullmatch(r"[\w./-]+:[\w.-]+", one["FROM"]), "a version is named"
    assert one["USER"] not in ("root", "0")
    names = [name for name, _ in steps]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    assert json.loads(one["ENTRYPOINT"]) == ["penstock", "serve"]
    assert {"--tls-cert", "--tls-key"} <= options_of(json.loads(one["CMD"]))
    assert one["STOPSIGNAL"] == "SIGTERM"
