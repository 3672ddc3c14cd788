"""Frames of the connector protocol as typed values, and their codec.

A frame on the wire is its length (u32), a tag (u8) and fields. The length counts the tag. A message of two-phase commit
is no frame of its own: it is the body of a MESSAGE on stream 0. Invariants:

- decoding an encoded frame returns an equal frame, and encoding it again the same bytes;
- decoding any bytes returns a frame or raises `ProtocolFault`, and nothing else;
- bytes after the last field are ignored, as other implementations do. Strict decoding refuses them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.connector.errors import ProtocolFault
from penstock.connector.wire_fields import (
    ADDRESS,
    BOOLEAN,
    BYTES16,
    I64,
    REST,
    TEXT16,
    TRANSACTION,
    U32,
    U64,
    WORKER,
    FieldKind,
    ListOf,
)

__all__ = [
    "COMMIT_STREAM",
    "DATA_STREAM",
    "NOTHING",
    "Ack",
    "AnyFrame",
    "CommitMessage",
    "Eos",
    "ErrorFrame",
    "Hello",
    "ListUncommitted",
    "MessageFrame",
    "Notify",
    "NotifyAck",
    "Ok",
    "Phase1",
    "Phase1Reply",
    "Phase2",
    "ReplyUncommitted",
    "Restart",
    "WorkersLeft",
    "commit_message_of",
    "decode",
    "encode",
    "name_of",
]

COMMIT_STREAM = 0
"""The stream of messages of two-phase commit."""
DATA_STREAM = 1
"""The one stream of data in sink use."""
NOTHING = 2**64 - 1
"""The point of reference of a stream from which nothing was ever processed."""


class Hello(msgspec.Struct, frozen=True):
    """The initiator introduces itself. In sink use `instance` is the name of the worker."""

    version: str
    cookie: str
    program: str
    instance: str


class Ok(msgspec.Struct, frozen=True):
    """The acceptor answers HELLO."""

    credits: int


class ErrorFrame(msgspec.Struct, frozen=True):
    """One side ends the session, with the reason."""

    text: str


class Notify(msgspec.Struct, frozen=True):
    """The sender opens a stream."""

    stream: int
    name: bytes
    point: int


class NotifyAck(msgspec.Struct, frozen=True):
    """The acceptor opens or refuses a stream. `point` is the last message that it has processed."""

    success: bool
    stream: int
    point: int


class MessageFrame(msgspec.Struct, frozen=True):
    """One message of a stream. In sink use `message` is the offset of the body in the worker's output."""

    stream: int
    message: int
    event_time: int
    key: bytes
    body: bytes


class Ack(msgspec.Struct, frozen=True):
    """The acceptor grants credits, and acknowledges streams up to points."""

    credits: int
    streams: tuple[tuple[int, int], ...] = ()


class Restart(msgspec.Struct, frozen=True):
    """The acceptor asks for a reconnection, to another address if it has one."""

    address: str | None = None


class Eos(msgspec.Struct, frozen=True):
    """The sender ends a stream."""

    stream: int


class ListUncommitted(msgspec.Struct, frozen=True):
    """The coordinator asks for open transactions."""

    rtag: int


class ReplyUncommitted(msgspec.Struct, frozen=True):
    """The participant lists its open transactions, with the rtag of the question."""

    rtag: int
    transactions: tuple[str, ...] = ()


class Phase1(msgspec.Struct, frozen=True):
    """The coordinator asks for a vote on ranges: stream, start, end."""

    transaction: str
    ranges: tuple[tuple[int, int, int], ...]


class Phase1Reply(msgspec.Struct, frozen=True):
    """The participant votes."""

    transaction: str
    commit: bool


class Phase2(msgspec.Struct, frozen=True):
    """The coordinator sends its decision. It has no answer."""

    transaction: str
    commit: bool


class WorkersLeft(msgspec.Struct, frozen=True):
    """The coordinator names workers that left its cluster."""

    rtag: int
    workers: tuple[str, ...]


CommitMessage = ListUncommitted | ReplyUncommitted | Phase1 | Phase1Reply | Phase2 | WorkersLeft
AnyFrame = Hello | Ok | ErrorFrame | Notify | NotifyAck | MessageFrame | Ack | Restart | Eos

_Layout = tuple[type[Any], tuple[FieldKind, ...]]
_FRAMES: Mapping[int, _Layout] = {
    0: (Hello, (TEXT16, TEXT16, TEXT16, TEXT16)),
    1: (Ok, (U32,)),
    2: (ErrorFrame, (TEXT16,)),
    3: (Notify, (U64, BYTES16, U64)),
    4: (NotifyAck, (BOOLEAN, U64, U64)),
    5: (MessageFrame, (U64, U64, I64, BYTES16, REST)),
    6: (Ack, (U32, ListOf(U64, U64))),
    7: (Restart, (ADDRESS,)),
    8: (Eos, (U64,)),
}
_COMMIT_MESSAGES: Mapping[int, _Layout] = {
    201: (ListUncommitted, (U64,)),
    202: (ReplyUncommitted, (U64, ListOf(TRANSACTION))),
    203: (Phase1, (TRANSACTION, ListOf(U64, U64, U64))),
    204: (Phase1Reply, (TRANSACTION, BOOLEAN)),
    205: (Phase2, (TRANSACTION, BOOLEAN)),
    206: (WorkersLeft, (U64, ListOf(WORKER))),
}
_LAYOUTS = {kind: (tag, fields) for table in (_FRAMES, _COMMIT_MESSAGES) for tag, (kind, fields) in table.items()}
_NAMES: dict[type[Any], str] = {
    Hello: "HELLO",
    Ok: "OK",
    ErrorFrame: "ERROR",
    Notify: "NOTIFY",
    NotifyAck: "NOTIFY_ACK",
    MessageFrame: "MESSAGE",
    Ack: "ACK",
    Restart: "RESTART",
    Eos: "EOS",
}
_LENGTH = struct.Struct(">I")


def name_of(kind: type[Any]) -> str:
    """Return the name of a kind of frame in the protocol.

    >>> name_of(NotifyAck), name_of(Phase1)
    ('NOTIFY_ACK', 'Phase1')
    """
    return _NAMES.get(kind, kind.__name__)


def encode(frame: AnyFrame | CommitMessage) -> bytes:
    """Encode a frame with its length. A message of two-phase commit becomes a MESSAGE on stream 0.

    >>> encode(Ok(500)).hex()
    '0000000501000001f4'
    """
    if isinstance(frame, CommitMessage):
        frame = MessageFrame(COMMIT_STREAM, 0, 0, b"", _tagged(frame))
    payload = _tagged(frame)
    return _LENGTH.pack(len(payload)) + payload


def decode(payload: bytes, strict: bool = False) -> AnyFrame:
    """Decode a frame from its tag and fields, without the length.

    >>> decode(bytes.fromhex("01000001f4"))
    Ok(credits=500)
    """
    frame: AnyFrame = _decoded(payload, _FRAMES, strict, "a frame")
    return frame


def commit_message_of(frame: MessageFrame, strict: bool = False) -> CommitMessage:
    """Decode the message of two-phase commit in a MESSAGE on stream 0."""
    if strict and (frame.message or frame.event_time or frame.key):
        raise ProtocolFault("a message of two-phase commit has a message id, an event time or a key")
    message: CommitMessage = _decoded(frame.body, _COMMIT_MESSAGES, strict, "a message of two-phase commit")
    return message


def _tagged(value: AnyFrame | CommitMessage) -> bytes:
    tag, fields = _LAYOUTS[type(value)]
    out = bytearray((tag,))
    for field, part in zip(fields, msgspec.structs.astuple(value)):
        field.write(part, out)
    return bytes(out)


def _decoded(payload: bytes, table: Mapping[int, _Layout], strict: bool, subject: str) -> Any:
    if not payload:
        raise ProtocolFault(f"{subject} has no tag")
    if payload[0] not in table:
        raise ProtocolFault(f"{subject} has the unknown tag {payload[0]}")
    kind, fields = table[payload[0]]
    at, values = 1, []
    for field in fields:
        value, at = field.read(payload, at)
        values.append(value)
    if strict and at != len(payload):
        raise ProtocolFault(f"{name_of(kind)} has {len(payload) - at:,} bytes after its last field")
    return kind(*values)
