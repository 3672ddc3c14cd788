"""The route of metrics, on a port of its own. Each scrape reads the store and asks the holder."""

from __future__ import annotations

from typing import Any

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.cache import PenstockError
from penstock.remote import METERS
from penstock.serve.access.access_tokens import Permission
from penstock.serve.http.responses import RequestRefused, refused
from penstock.serve.http.route_permissions import check_allowed
from penstock.serve.metrics.families import families_of
from penstock.serve.metrics.store_facts import FactReader
from penstock.serve.store.call_meters import CallMeters
from penstock.serve.store.store_reading import StoreReading

__all__ = ["metrics_application"]


def metrics_application(store: StoreReading, calls: CallMeters) -> Starlette:
    """Return the ASGI application of the metrics' port."""

    facts = FactReader(lambda: store.reader)

    async def metrics(request: Request) -> Response:
        try:
            check_allowed(request, Permission.METRICS, store.app)
        except RequestRefused as error:
            return refused(error)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(await store.read(lambda: encode(_Scrape(store, calls, facts))), headers={"content-type": kind})

    return Starlette(routes=[Route("/metrics", metrics)])


class _Scrape:
    """The metrics of this moment, in the form that the encoder of prometheus-client reads."""

    def __init__(self, store: StoreReading, calls: CallMeters, facts: FactReader) -> None:
        self._facts = facts
        self._store = store
        self._calls = calls

    def collect(self) -> Any:
        """Return all metric families."""
        return families_of(self._store.reader.status(), self._facts.read(), self._meters(), self._calls)

    def _meters(self) -> dict[str, Any] | None:
        try:
            return self._store.access.call(METERS)
        except PenstockError:
            return None
