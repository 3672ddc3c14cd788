"""Metric families of a server: the store's status, the holder's meters, and the calls of all fronts.

Labels are names of tables, views and routes, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from penstock.serve.metrics.store_facts import StoreFacts
from penstock.serve.store.call_meters import BOUNDS, RPC, CallMeters

__all__ = ["families_of"]

_OUTCOMES = ("applied", "equal", "late", "held", "rejected")
_REASONS = {401: "token", 408: "slow", 413: "length", 421: "host", 429: "busy", 503: "unavailable", 504: "deadline"}
_SECOND = 1e9


def families_of(
    status: dict[str, Any], facts: StoreFacts, meters: dict[str, Any] | None, calls: CallMeters
) -> Iterator[Metric]:
    """Yield all families. `meters` is None without a holder."""
    yield InfoMetricFamily("penstock_build", "The version of Penstock.", {"version": version("penstock")})
    yield GaugeMetricFamily("penstock_holder_up", "1 if a holder takes writes.", float(meters is not None))
    if meters is not None:
        yield from _writes(meters)
    yield from _store(status, facts)
    yield from _sources(facts)
    yield from _views(status)
    yield from _calls(calls)


def _writes(meters: dict[str, Any]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "penstock_records", "Records by outcome since the holder opened the store.", labels=["table", "outcome"]
    )
    size = CounterMetricFamily("penstock_record_bytes", "Bytes of the lines of records.", labels=["table"])
    for table, own in meters["tables"].items():
        for outcome in _OUTCOMES:
            records.add_metric([table, outcome], own[outcome])
        size.add_metric([table], own["bytes"])
    yield records
    yield size
    yield CounterMetricFamily("penstock_commits", "Transactions of batches.", meters["commits"])
    yield CounterMetricFamily(
        "penstock_redelivered_records", "Records of sources that an earlier batch had.", meters["redelivered"]
    )
    durations, sizes = meters["commit_ns"], meters["batch_records"]
    yield _histogram(
        "penstock_commit_seconds",
        "Seconds from the writer's lock to the end of the commit.",
        [bound / _SECOND for bound in durations["bounds"]],
        durations["counts"],
        durations["total"] / _SECOND,
    )
    yield _histogram("penstock_batch_records", "Records of a batch.", sizes["bounds"], sizes["counts"], sizes["total"])


def _store(status: dict[str, Any], facts: StoreFacts) -> Iterator[Metric]:
    positions = status["position"]
    listed = [positions] if isinstance(positions, int) else positions
    position = GaugeMetricFamily("penstock_position", "Commits of a partition.", labels=["partition"])
    feed = GaugeMetricFamily(
        "penstock_feed_oldest_position", "The oldest position that the changes feed has.", labels=["partition"]
    )
    for i, (own, first) in enumerate(zip(listed, facts.oldest, strict=True)):
        position.add_metric([str(i)], own)
        feed.add_metric([str(i)], first)
    yield position
    yield feed
    yield GaugeMetricFamily("penstock_epoch", "The number of the writer.", status["epoch"])
    store = status["store"]
    yield GaugeMetricFamily("penstock_readers", "Slots of LMDB readers in use.", store["readers"])
    size = GaugeMetricFamily("penstock_store_bytes", "Bytes of the store.", labels=["kind"])
    for kind, own in (("file", store["bytes"]), ("used", store["used"]), ("reusable", store["bytes"] - store["used"])):
        size.add_metric([kind], own)
    yield size
    age = "Seconds since a scrape first saw the oldest open snapshot."
    yield GaugeMetricFamily("penstock_oldest_snapshot_seconds", age, facts.snapshot_age)
    yield GaugeMetricFamily("penstock_disk_free_bytes", "Bytes free on the disk of the store.", facts.disk_free)
    yield CounterMetricFamily("penstock_view_changes", "Changes that the feed ever had.", facts.fed)
    pending = GaugeMetricFamily("penstock_productions_pending", "Messages on their way to a partition.", labels=["to"])
    for to, own in enumerate(facts.pending):
        pending.add_metric([str(to)], own)
    yield pending


def _sources(facts: StoreFacts) -> Iterator[Metric]:
    """Yield the lag of each source. Several processes may read one."""
    lag = GaugeMetricFamily("penstock_source_lag_records", "Records of a source that are not read.", labels=["source"])
    rest = GaugeMetricFamily(
        "penstock_source_lag_seconds", "Seconds to read the lag at the present rate.", labels=["source"]
    )
    lags: dict[str, int] = {}
    rates: dict[str, int] = {}
    for own in facts.sources:
        if own.get("lag") is not None:
            lags[own["source"]] = lags.get(own["source"], 0) + own["lag"]
            rates[own["source"]] = rates.get(own["source"], 0) + own.get("rate", 0)
    for source, records in lags.items():
        lag.add_metric([source], records)
        if rates[source] or not records:
            rest.add_metric([source], records / max(rates[source], 1))
    yield lag
    yield rest


def _views(status: dict[str, Any]) -> Iterator[Metric]:
    documents = GaugeMetricFamily("penstock_documents", "Documents of a table.", labels=["table"])
    quarantine = GaugeMetricFamily("penstock_quarantine_records", "Rejected records in quarantine.", labels=["table"])
    for name, table in status["tables"].items():
        documents.add_metric([name], table["documents"])
        quarantine.add_metric([name], table["quarantined"])
    yield documents
    yield quarantine
    groups = GaugeMetricFamily("penstock_view_groups", "Rows of a view.", labels=["view"])
    held = GaugeMetricFamily("penstock_view_held", "Documents and groups that a view holds.", labels=["view"])
    for name, view in status["views"].items():
        groups.add_metric([name], view["groups"])
        held.add_metric([name], view["held"] + view["held_groups"])
    yield groups
    yield held
    ratio = GaugeMetricFamily("penstock_building_ratio", "Progress of a view that is built.", labels=["view"])
    building = status["building"]
    names: list[str] = [] if building is None else building["views"]
    for name in names:
        assert building is not None, "it has names"
        ratio.add_metric([name], building["done"] / max(building["total"], 1))
    yield ratio


def _calls(calls: CallMeters) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "http_server_request_duration_seconds",
        "Seconds of HTTP calls.",
        labels=["http_request_method", "http_route", "http_response_status_code"],
    )
    refused = dict.fromkeys(_REASONS.values(), 0)
    rpc = HistogramMetricFamily(
        "rpc_server_call_duration_seconds", "Seconds of gRPC calls.", labels=["rpc_method", "rpc_grpc_status_code"]
    )
    for ((method, path), status), (counts, seconds) in calls.calls().items():
        if method == RPC:
            rpc.add_metric([path, str(status)], _buckets(BOUNDS, counts), seconds)
            continue
        durations.add_metric([method, path, "other" if status < 0 else str(status)], _buckets(BOUNDS, counts), seconds)
        if status in _REASONS:
            refused[_REASONS[status]] += sum(counts)
    yield durations
    yield rpc
    rejected = CounterMetricFamily("penstock_rejected_requests", "Refused requests by reason.", labels=["reason"])
    for reason, own in refused.items():
        rejected.add_metric([reason], own)
    yield rejected
    counts, seconds = calls.waits()
    yield _histogram("penstock_queue_seconds", "Seconds that writes waited in a front.", BOUNDS, counts, seconds)
    yield GaugeMetricFamily("penstock_watchers", "Open streams of changes.", calls.watchers())


def _histogram(name: str, text: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> Metric:
    return HistogramMetricFamily(name, text, buckets=_buckets(bounds, counts), sum_value=total)


def _buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return cumulative counts with their bounds as text."""
    return list(zip([*(repr(float(bound)) for bound in bounds), "+Inf"], accumulate(counts), strict=True))
