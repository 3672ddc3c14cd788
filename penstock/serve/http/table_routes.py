"""Routes of tables: put documents, read one, delete one."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.cache import encode_key
from penstock.engine import Batch, batches_of
from penstock.remote import WRITE
from penstock.serve.http.parameters import (
    conditions_of,
    documents_of,
    flag,
    group,
    known,
    number,
    optional_group,
    read_body,
)
from penstock.serve.http.responses import RequestRefused, json_response, position_json, rejections_json, unchanged
from penstock.serve.store.store_reading import StoreReading

__all__ = ["TableRoutes"]

_WRITE = ("session", "number", "conditions", "dry_run")
_WHOLE = 1 << 31  # documents of one transaction: all of a request


class TableRoutes:
    """The routes of tables, over one store."""

    def __init__(self, store: StoreReading) -> None:
        self._store = store

    async def get(self, request: Request) -> Response:
        """Return the document of a key."""
        known(request, "key")
        name, key = request.path_params["name"], group(request, "key")
        encode_key(key)  # a key of a wrong kind is an error, not an absent document
        with self._store.snapshot() as snap:
            tag = unchanged(request, name, snap.position)
            if isinstance(tag, Response):
                return tag
            try:
                row = snap.table(name).row(key)
            except KeyError:
                raise RequestRefused(404, "no document", f"table {name!r} has no document of this key") from None
            body = {"key": row.key, "value": row.value, "held": row.held, "position": position_json(snap.position)}
        return json_response(body, headers=tag)

    async def post(self, request: Request) -> Response:
        """Put the documents of the body, all in one transaction per partition."""
        known(request, "strict", *_WRITE)
        self._store.app.table_of(request.path_params["name"])
        lines = documents_of(await read_body(request), request.headers.get("content-type", ""))
        return await self._written(request, list(batches_of(lines, _WHOLE)), flag(request, "strict"))

    async def delete(self, request: Request) -> Response:
        """Delete the document of a key."""
        known(request, "key", "ts", *_WRITE)
        key = group(request, "key")
        self._store.app.table_of(request.path_params["name"])
        batch = Batch(origin="delete")
        batch.delete(key, optional_group(request, "ts", None))
        return await self._written(request, [batch], False)

    async def _written(self, request: Request, parts: list[Batch], strict: bool) -> Response:
        name, session = request.path_params["name"], request.query_params.get("session", "")
        conditions = conditions_of(request)
        done = await self._store.write(
            WRITE,
            tables={name: parts},
            strict=strict,
            session=session,
            number=number(request, "number", 0) or 0,
            conditions={name: conditions} if conditions else {},
            dry_run=flag(request, "dry_run"),
        )
        counts = done.counts
        with self._store.snapshot() as snap:
            token = position_json(snap.position)
        body: dict[str, Any] = {
            "applied": counts.applied,
            "equal": counts.equal,
            "late": counts.late,
            "held": counts.held,
            "rejected": counts.rejected,
        }
        if session:
            body["upto"] = done.upto
        if counts.rejections:
            body["rejections"] = rejections_json(counts.rejections)
        return json_response(body | {"position": token})
