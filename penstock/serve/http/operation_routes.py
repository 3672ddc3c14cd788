"""Routes of operations: start one of each kind, follow it, and cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.serve.access.access_tokens import AccessToken
from penstock.serve.http.gate import TOKEN
from penstock.serve.http.parameters import flag, known, read_body
from penstock.serve.http.responses import JSON, RequestRefused, json_response
from penstock.serve.operations.operation_kinds import OperationKind
from penstock.serve.operations.operation_record import OperationRecord
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.store.store_reading import StoreReading
from penstock.views import json_text, json_value

__all__ = ["OperationRoutes"]

_LOOK = 0.1  # seconds between two looks at an operation
_BEAT = 150  # looks without a change after which the stream sends a comment


class OperationRoutes:
    """The routes of operations of one front."""

    def __init__(self, store: StoreReading, runner: OperationRunner) -> None:
        self._store = store
        self._runner = runner
        self._ended = False

    def end(self) -> None:
        """End all streams of progress."""
        self._ended = True

    def start(self, kind: OperationKind) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler that starts operations of a kind."""

        async def post(request: Request) -> Response:
            known(request, "dry_run")
            given = _object(await read_body(request), request.headers.get("content-type", ""))
            if "dry_run" in request.query_params:
                given["dry_run"] = flag(request, "dry_run")
            token: AccessToken = request.scope[TOKEN]
            record = await self._store.read(lambda: self._runner.start(kind, given, token.name))
            return json_response(record.data(), 202, {"location": f"/v1/operations/{record.id}"})

        return post

    async def listed(self, request: Request) -> Response:
        """Return all operations, the last one first."""
        known(request)
        records = await self._store.read(self._runner.folder.listed)
        return json_response({"operations": [record.data() for record in records]})

    async def get(self, request: Request) -> Response:
        """Return one operation."""
        known(request)
        return json_response((await self._found(request)).data())

    async def cancel(self, request: Request) -> Response:
        """Ask an operation to end at its next step."""
        known(request)
        token: AccessToken = request.scope[TOKEN]
        number = request.path_params["number"]
        record = await self._store.read(lambda: self._runner.cancel(number, token.name))
        return json_response(_must_be(record, number).data(), 202, {"location": f"/v1/operations/{number}"})

    async def events(self, request: Request) -> Response:
        """Send the record of an operation after each change, until it ends."""
        known(request)
        record = await self._found(request)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._changes(record), media_type="text/event-stream", headers=headers)

    async def _changes(self, record: OperationRecord) -> AsyncIterator[bytes]:
        yield _event(record)
        idle, number = 0, record.id
        while not record.state.ended and not self._ended:
            await asyncio.sleep(_LOOK)
            found = await self._store.read(lambda: self._runner.folder.find(number))
            if found is None:
                return
            idle = 0 if found != record else idle + 1
            if found != record:
                record = found
                yield _event(record)
            elif idle % _BEAT == 0:
                yield b": beat\n\n"

    async def _found(self, request: Request) -> OperationRecord:
        number = request.path_params["number"]
        return _must_be(await self._store.read(lambda: self._runner.folder.find(number)), number)


def _must_be(record: OperationRecord | None, number: str) -> OperationRecord:
    if record is None:
        text = f"there is no operation {number!r}; GET /v1/operations lists those of the last 24 hours"
        raise RequestRefused(404, "no operation", text)
    return record


def _event(record: OperationRecord) -> bytes:
    return f"data: {json_text(record.data())}\n\n".encode()


def _object(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the arguments that a body has; none for an empty body."""
    if not body.strip():
        return {}
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (JSON, ""):
        raise RequestRefused(415, "content type", f"a body of {kind} is not understood; send {JSON}")
    try:
        found = json_value(body)
    except (RecursionError, UnicodeDecodeError, ValueError) as error:
        raise RequestRefused(400, "bad request", f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RequestRefused(400, "bad request", 'the body is no JSON object; write {"name": value, …}')
    return found
