"""Parameters and bodies of requests. A fault of the client is refused with the name of the parameter.

Keys and groups are JSON in the query, as on the command line. A text that isn't JSON is itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from penstock.serve.http.responses import JSON, RequestRefused
from penstock.views import ABSENT, Position, group_of_json, group_of_text, json_value

__all__ = [
    "MOST_BYTES",
    "conditions_of",
    "documents_of",
    "flag",
    "group",
    "known",
    "number",
    "optional_group",
    "position",
    "read_body",
    "text",
]

MOST_BYTES = (1 << 20) + (64 << 10)
_START = 10.0  # seconds in which the first bytes of a body must come
_LEAST = 1 << 10  # bytes per second that a body must have after that
_LINES = ("application/x-ndjson", "application/jsonl", "application/x-www-form-urlencoded", "text/plain", "")
_TYPES = f"{_LINES[0]} (a document per line) or {JSON} (a document, or a list of them)"
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def known(request: Request, *names: str) -> None:
    """Refuse a request with parameters of other names."""
    for name in request.query_params:
        if name not in names:
            listed = ", ".join(names) or "none"
            raise _bad(f"there is no parameter {name!r} here; there are: {listed}")


def text(request: Request, name: str) -> str:
    """Return a parameter that must be there."""
    found = request.query_params.get(name)
    if found is None:
        raise _bad(f"the parameter {name} is missing; write ?{name}=VALUE")
    return str(found)


def group(request: Request, name: str) -> Any:
    """Return the key or group that a parameter stands for."""
    return group_of_text(text(request, name))


def optional_group(request: Request, name: str, default: Any) -> Any:
    """Return the key or group that a parameter stands for, or `default` without it."""
    found = request.query_params.get(name)
    return default if found is None else group_of_text(found)


def number(request: Request, name: str, default: int | None, most: int | None = None) -> int | None:
    """Return a parameter that is a number of at least 0."""
    found = request.query_params.get(name)
    if found is None:
        return default
    if not found.isdecimal() or len(found) > 18 or (most is not None and int(found) > most):
        above = "" if most is None else f" to {most:,}"
        raise _bad(f"{name}={found} is no number from 0{above}")
    return int(found)


def flag(request: Request, name: str) -> bool:
    """Return True for a parameter that is 1 or true."""
    found = request.query_params.get(name, "0")
    if found not in ("0", "1", "true", "false"):
        raise _bad(f"{name}={found} is neither 1 nor 0")
    return found in ("1", "true")


def conditions_of(request: Request) -> list[tuple[Any, Any]]:
    """Return the keys of a write's conditions, each with the wanted ts or ABSENT."""
    text = request.query_params.get("conditions", "[]")
    try:
        found = json_value(text)
    except ValueError:
        found = None
    out = []
    for own in found if isinstance(found, list) else [None]:
        if not isinstance(own, dict) or not (own.keys() == {"key", "absent"} or own.keys() == {"key", "ts"}):
            raise _bad('conditions are a JSON list of {"key": 7, "absent": true} and {"key": 7, "ts": 3}')
        if own.get("absent", True) is not True:
            raise _bad("absent is true in a condition; leave the condition out instead")
        out.append((group_of_json(own["key"]), group_of_json(own["ts"]) if "ts" in own else ABSENT))
    return out


def position(given: str, name: str) -> Position:
    """Return the position that a text stands for."""
    try:
        found = json_value(given)
    except ValueError:
        found = None
    numbers = found if isinstance(found, list) else [found]
    if not numbers or any(type(one) is not int or one < 0 for one in numbers):
        raise _bad(f"{name} {given!r} is no position; write it as answers have it: 181, or [181,7]")
    return found


async def read_body(request: Request) -> bytes:
    """Return the body. Refuse one that is too long, and end a connection that sends it too slowly."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MOST_BYTES:
        raise _too_long()
    clock = asyncio.get_running_loop().time
    began, parts, size = clock(), list[bytes](), 0
    stream = request.stream().__aiter__()
    try:
        while True:
            async with asyncio.timeout_at(began + _START + size / _LEAST):
                part = await anext(stream, None)
            if part is None:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise _too_long()
    except TimeoutError:
        slow = f"the body came at less than {_LEAST:,} bytes per second"
        raise RequestRefused(408, "slow body", slow, {"connection": "close"}) from None
    except ClientDisconnect:
        raise RequestRefused(400, "disconnected", "the client ended the connection", {"connection": "close"}) from None


def documents_of(body: bytes, content_type: str) -> list[bytes]:
    """Split a body into JSON documents, in order."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _LINES:
        return body.split(b"\n")
    if kind != JSON:
        raise RequestRefused(415, "content type", f"a body of {kind} is not understood; send {_TYPES}")
    try:
        own = [bytes(one) for one in _ARRAY.decode(body)] if body.lstrip()[:1] == b"[" else [body.strip()]
    except (RecursionError, msgspec.MsgspecError) as error:
        raise _bad(f"the body is no JSON: {error}") from None
    return [one if b"\n" not in one else msgspec.json.format(one, indent=-1) for one in own]


def _bad(message: str) -> RequestRefused:
    return RequestRefused(400, "bad request", message)


def _too_long() -> RequestRefused:
    return RequestRefused(
        413, "too long", f"a body has at most {MOST_BYTES:,} bytes; send several", {"connection": "close"}
    )
