"""The description of the HTTP API in the OpenAPI format, written by hand. A test compares it with the routes."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.serve.operations.operation_kinds import KINDS, OperationKind

__all__ = ["description_of"]

_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_NUMBER = {"name": "number", "in": "path", "required": True, "schema": {"type": "string"}}
_ERRORS = {
    "400": {"description": "The request is wrong. The message says where."},
    "401": {"description": "The access token is missing or unknown."},
    "404": {"description": "There is no such name, key or group."},
    "429": {"description": "Too many calls run. Repeat it after `retry-after` seconds."},
    "503": {"description": "The writer restarts. Repeat it after `retry-after` seconds."},
    "504": {"description": "No answer within 10 s. A write may be done or not, and may be repeated."},
}
_KEY = 'JSON, for example 7, "Sue" or ["NO",1]. A text that is no JSON is itself.'


def description_of() -> dict[str, Any]:
    """Return the description of all routes."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": "1",
            "description": "Documents in tables, and aggregate views that follow them.",
        },
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/v1/status": {"get": _route("Sizes, positions and sources of the store", [])},
            "/v1/tables/{name}": {
                "get": _route("The document of a key", [_NAME, _asked("key", _KEY, True)]),
                "post": _put(),
                "delete": _route(
                    "Delete the document of a key",
                    [_NAME, _asked("key", _KEY, True), _asked("ts", "its version"), *_WRITES],
                ),
            },
            "/v1/views/{name}": {
                "get": _route("The result of a group", [_NAME, _asked("group", _KEY, True)], {"304": _UNCHANGED})
            },
            "/v1/views/{name}/rows": {"get": _rows()},
            "/v1/views/{name}/why": {
                "get": _route(
                    "The contributions behind a result",
                    [_NAME, _asked("group", _KEY, True), _asked("documents", "1: with the documents")],
                )
            },
            "/v1/events": {"get": _events()},
            "/v1/quarantine": {"get": _quarantine()},
            **{kind.path: {"post": _operation(kind)} for kind in KINDS.values()},
            "/v1/operations": {"get": _route("The operations of the last 24 hours", [])},
            "/v1/operations/{number}": {"get": _route("The state of an operation", [_NUMBER])},
            "/v1/operations/{number}/events": {"get": _route("Its state after each change, as events", [_NUMBER])},
            "/v1/operations/{number}/cancel": {"post": _route("End an operation at its next step", [_NUMBER])},
            "/healthz": {"get": _open("The server runs")},
            "/readyz": {"get": _open("The server reads and writes the store")},
            "/openapi.json": {"get": _route("This description", [])},
        },
    }


def _quarantine() -> dict[str, Any]:
    asked = [
        _asked("kind", "record, document or group"),
        _asked("table", "entries of this table and the views on it"),
        _asked("view", "entries of this view"),
        _asked("id", "an entry; repeat it for several"),
        _asked("after", "the last entry of the page before"),
        _asked("limit", "the number of entries; 100, at most 1,000"),
        _asked("resting", "1: dropped documents too"),
        _asked("whole", "1: with bytes, documents and tracebacks"),
    ]
    return _route("A page of the quarantine", asked, {"410": {"description": "The entry after= left the quarantine."}})


def _operation(kind: OperationKind) -> dict[str, Any]:
    begun = {"202": {"description": "It began. `location` has its route."}, "409": {"description": "One runs already."}}
    dry = [_asked("dry_run", "1: only show the changes")] if kind.name == "Migrate" else []
    body = {"content": {"application/json": {"schema": msgspec.json.schema(kind.arguments)}}}
    out = _route(f"Start the operation {kind.name}", dry, begun) | {"requestBody": body}
    del out["responses"]["200"]
    return out


_UNCHANGED = {"description": "The result has not changed since `if-none-match`."}


def _asked(name: str, text: str, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": text, "schema": {"type": "string"}}


def _route(summary: str, parameters: list[Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
    ok = {"200": {"description": summary, "content": {"application/json": {}}}}
    return {"summary": summary, "parameters": parameters, "responses": {**ok, **(more or {}), **_ERRORS}}


def _open(summary: str) -> dict[str, Any]:
    responses = {"200": {"description": summary}, "503": {"description": "It does not. The text says why."}}
    return {"summary": summary, "security": [], "responses": responses}


_WRITES = [
    _asked("session", "the name of a session: its documents are numbered, and each is applied once"),
    _asked("number", "the number of the first document in its session, from 1"),
    _asked("conditions", 'a list of {"key": 7, "absent": true} and {"key": 7, "ts": 3}; 409 names those that fail'),
    _asked("dry_run", "1: store nothing, and return the counts"),
]


def _put() -> dict[str, Any]:
    strict = _asked("strict", "1: a rejected document undoes the request")
    body: dict[str, Any] = {"application/x-ndjson": {}, "application/json": {}}
    refused = {
        "413": {"description": "The body has more than 1 MiB."},
        "415": {"description": "The body has another type."},
    }
    route = _route("Put documents, all in one transaction per partition", [_NAME, strict, *_WRITES], refused)
    return route | {"requestBody": {"required": True, "content": body}}


def _rows() -> dict[str, Any]:
    asked = [
        _asked("start", f"The first group. {_KEY}"),
        _asked("stop", f"The group to end before. {_KEY}"),
        _asked("prefix", f"The beginning of the groups. {_KEY}"),
        _asked("reverse", "1: the last group first"),
        _asked("limit", "the number of rows; 100, at most 10,000"),
        _asked("level", "the number of parts of a group by which rows are rolled up"),
        _asked("cursor", "the cursor of the page before"),
    ]
    return _route("A page of rows in group order", [_NAME, *asked], {"410": _EXPIRED})


def _events() -> dict[str, Any]:
    asked = [
        _asked("view", "a view; repeat it for several, leave it out for all"),
        _asked("since", "the position after which changes begin"),
        _asked("coalesce", "milliseconds for which changes of one group are merged"),
    ]
    stream = {"200": {"description": "Changes as they are committed", "content": {"text/event-stream": {}}}}
    return {"summary": "Changes of views", "parameters": asked, "responses": {**stream, "410": _EXPIRED, **_ERRORS}}


_EXPIRED = {"description": "The changes feed no longer has this position. Begin without it."}
