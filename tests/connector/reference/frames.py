"""Frames of the connector protocol as tuples, and their bytes.

This writer and reader share no code with `penstock.connector`, so tests can compare the two. A frame is a tuple of its
name and its fields:

    ("hello", version, cookie, program, worker)     ("list", rtag)
    ("ok", credits)                                 ("uncommitted", rtag, [txn, …])
    ("error", text)                                 ("phase1", txn, [(stream, start, end), …])
    ("notify", stream, name, por)                   ("vote", txn, commit)
    ("notify_ack", success, stream, por)            ("phase2", txn, commit)
    ("message", stream, id, time, key, body)        ("workers_left", rtag, [worker, …])
    ("ack", credits, [(stream, por), …])
    ("restart", address)                            ("raw", payload): any bytes after the length
    ("eos", stream)

The frames on the right, from `list` to `workers_left`, travel inside a message on stream 0. Stream names, keys and
bodies are bytes, and other names are str. An absent key is None, and so is an absent address.
"""

from __future__ import annotations

import struct
from typing import Any

Frame = tuple[Any, ...]

VERSION, COOKIE, CREDITS = "v0.0.1", "Dragons-Love-Tacos", 500  # of sink use, as the reference sink has them
NAMES = ["hello", "ok", "error", "notify", "notify_ack", "message", "ack", "restart", "eos"]
INNER = ["list", "uncommitted", "phase1", "vote", "phase2", "workers_left"]
FIRST_INNER = 201
_TO_STREAM_0 = bytes(26)  # stream, id and time 0, and no key


def _text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return struct.pack(">H", len(raw)) + raw


def _many(values: list[Any], form: str) -> bytes:
    items = (_text(value) if form == "s" else struct.pack(form, *value) for value in values)
    return struct.pack(">I", len(values)) + b"".join(items)


def body(frame: Frame) -> bytes:
    """Return the bytes after the tag."""
    match frame:
        case ("hello", *texts):
            return b"".join(map(_text, texts))
        case ("ok", credits):
            return struct.pack(">I", credits)
        case ("error", text):
            return _text(text)
        case ("notify", stream, name, por):
            return struct.pack(">Q", stream) + _text(name) + struct.pack(">Q", por)
        case ("notify_ack", success, stream, por):
            return struct.pack(">BQQ", success, stream, por)
        case ("message", stream, number, time, key, content):
            return struct.pack(">QQq", stream, number, time) + _text(key or b"") + bytes(content)
        case ("ack", credits, acks):
            return struct.pack(">I", credits) + _many(acks, ">QQ")
        case ("restart", address):
            raw = (address or "").encode()
            return struct.pack(">I", len(raw)) + raw
        case ("eos" | "list", number):
            return struct.pack(">Q", number)
        case ("uncommitted" | "workers_left", rtag, names):
            return struct.pack(">Q", rtag) + _many(names, "s")
        case ("phase1", txn, where):
            return _text(txn) + _many(where, ">QQQ")
        case ("vote" | "phase2", txn, commit):
            return _text(txn) + struct.pack("B", commit)
    raise ValueError(f"no frame is {frame!r}")


def payload(frame: Frame) -> bytes:
    """Return the bytes after the length."""
    name = frame[0]
    if name == "raw":
        return bytes(frame[1])
    if name in INNER:
        return bytes([NAMES.index("message")]) + _TO_STREAM_0 + bytes([FIRST_INNER + INNER.index(name)]) + body(frame)
    return bytes([NAMES.index(name)]) + body(frame)


def encoded(frame: Frame) -> bytes:
    """Return the whole frame, with its length."""
    raw = payload(frame)
    return struct.pack(">I", len(raw)) + raw


class _Fields:
    """Reads the fields of one frame."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def take(self, size: int) -> bytes:
        if size > len(self.raw):
            raise ValueError(f"{size - len(self.raw)} bytes are missing")
        taken, self.raw = self.raw[:size], self.raw[size:]
        return taken

    def number(self, form: str) -> int:
        [value] = struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))
        return int(value)

    def numbers(self, form: str) -> list[tuple[int, ...]]:
        return [tuple(self.number(one) for one in form) for _ in range(self.number("I"))]

    def octets(self) -> bytes:
        return self.take(self.number("H"))

    def text(self) -> str:
        return self.octets().decode("utf-8", "surrogateescape")

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.number("I"))]


def _outer(name: str, fields: _Fields) -> Frame:
    match name:
        case "hello":
            return name, fields.text(), fields.text(), fields.text(), fields.text()
        case "ok":
            return name, fields.number("I")
        case "error":
            return name, fields.text()
        case "notify":
            return name, fields.number("Q"), fields.octets(), fields.number("Q")
        case "notify_ack":
            return name, fields.number("B") == 1, fields.number("Q"), fields.number("Q")
        case "message":
            start = fields.number("Q"), fields.number("Q"), fields.number("q"), fields.octets() or None
            return name, *start, fields.take(len(fields.raw))
        case "ack":
            return name, fields.number("I"), fields.numbers("QQ")
        case "restart":
            return name, (fields.take(fields.number("I")).decode() or None) if fields.raw else None
        case _:
            return name, fields.number("Q")


def _inner(name: str, fields: _Fields) -> Frame:
    match name:
        case "list":
            return name, fields.number("Q")
        case "uncommitted" | "workers_left":
            return name, fields.number("Q"), fields.texts()
        case "phase1":
            return name, fields.text(), fields.numbers("QQQ")
        case _:
            return name, fields.text(), fields.number("B") == 1


def decoded(raw: bytes) -> Frame:
    """Return the frame of a payload. A payload that is no frame is a `raw` one."""
    try:
        frame = _outer(NAMES[raw[0]], _Fields(raw[1:]))
        if frame[:2] == ("message", 0):
            return _inner(INNER[frame[5][0] - FIRST_INNER], _Fields(frame[5][1:]))
    except (ValueError, IndexError):
        return "raw", raw
    return frame


def split(received: bytes) -> tuple[list[Frame], bytes]:
    """Return the whole frames, and the bytes after the last of them."""
    frames = []
    while len(received) >= 4:
        [size] = struct.unpack_from(">I", received)
        if len(received) < 4 + size:
            break
        frames.append(decoded(received[4 : 4 + size]))
        received = received[4 + size :]
    return frames, received
