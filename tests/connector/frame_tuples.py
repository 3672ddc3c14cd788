"""Translate between the frames of `penstock.connector` and the tuples of `tests.connector.reference`."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.connector import (
    Ack,
    AnyFrame,
    CommitMessage,
    Eos,
    ErrorFrame,
    Hello,
    ListUncommitted,
    MessageFrame,
    Notify,
    NotifyAck,
    Ok,
    Phase1,
    Phase1Reply,
    Phase2,
    ReplyUncommitted,
    Restart,
    WorkersLeft,
)
from tests.connector.reference.frames import Frame

_KINDS: dict[str, type[Any]] = {
    "hello": Hello,
    "ok": Ok,
    "error": ErrorFrame,
    "notify": Notify,
    "notify_ack": NotifyAck,
    "message": MessageFrame,
    "ack": Ack,
    "restart": Restart,
    "eos": Eos,
    "list": ListUncommitted,
    "uncommitted": ReplyUncommitted,
    "phase1": Phase1,
    "vote": Phase1Reply,
    "phase2": Phase2,
    "workers_left": WorkersLeft,
}
_WORDS = {kind: word for word, kind in _KINDS.items()}


def struct_of(frame: Frame) -> Any:
    """Return the struct of a tuple."""
    word, *fields = frame
    fields = [tuple(field) if isinstance(field, list) else field for field in fields]
    if word == "message":
        fields[3] = fields[3] or b""
    return _KINDS[word](*fields)


def tuple_of(frame: AnyFrame | CommitMessage) -> Frame:
    """Return the tuple of a struct."""
    fields = [list(field) if isinstance(field, tuple) else field for field in msgspec.structs.astuple(frame)]
    if isinstance(frame, MessageFrame):
        fields[3] = fields[3] or None
    return _WORDS[type(frame)], *fields
