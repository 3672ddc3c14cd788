"""Responses in JSON. After 429 and 503 a repeated request may succeed; `retry-after` says when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.cache import BatchRejected, PenstockError, UnknownName
from penstock.engine import ConditionFailed, SessionGap
from penstock.serve.store.error_codes import RETRY_SECONDS, error_code
from penstock.views import Position, PositionExpired, json_text

__all__ = [
    "JSON",
    "RequestRefused",
    "error_answer",
    "error_response",
    "json_bytes",
    "json_response",
    "position_json",
    "refused",
    "rejections_json",
    "unchanged",
]

JSON = "application/json"
_AGAIN = {"retry-after": str(RETRY_SECONDS)}


class RequestRefused(Exception):
    """A request that ends with a status of its own."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON."""
    return json_text(value).encode()


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a value as JSON."""
    return Response(json_text(value) + "\n", status, headers, JSON)


def refused(error: RequestRefused) -> Response:
    """Return the response of a refused request."""
    return json_response({"error": {"code": error.code, "message": str(error)}}, error.status, error.headers)


def error_response(error: PenstockError) -> Response:
    """Return the response for an error of the store."""
    code = error_code(error)
    body: dict[str, Any] = {"code": code.text, "message": str(error)}
    if isinstance(error, BatchRejected):
        body["rejections"] = rejections_json(error.rejections)
    if isinstance(error, ConditionFailed):
        body["failed"] = {key: found for key, _, found in error.failed}
    if isinstance(error, SessionGap):
        body["upto"] = error.upto
    if isinstance(error, PositionExpired):
        body["oldest"] = position_json(error.oldest)
    if isinstance(error, UnknownName) and error.nearest is not None:
        body["nearest"] = error.nearest
    return json_response({"error": body}, code.http, _AGAIN if code.passes else None)


def error_answer(request: Request, error: RequestRefused | PenstockError) -> Response:
    """Return the response for an error of a request or of the store."""
    return refused(error) if isinstance(error, RequestRefused) else error_response(error)


def position_json(position: Position) -> Any:
    """Return a position as JSON has it: a number, or a list of them."""
    return position if isinstance(position, int) else list(position)


def rejections_json(rejections: Sequence[Any]) -> list[dict[str, str]]:
    """Return rejections as maps."""
    return [{"table": own.table, "place": own.where, "reason": own.reason} for own in rejections]


def unchanged(request: Request, name: str, position: Position) -> Response | dict[str, str]:
    """Return 304 if the client has the state at this position already; else the headers of the answer."""
    tag = f'"{name}@{json_text(position_json(position)).replace(" ", "")}"'
    given = request.headers.get("if-none-match", "")
    if tag in (own.strip() for own in given.split(", ")):
        return Response(status_code=304, headers={"etag": tag})
    return {"etag": tag}
