"""The operations that the process of a partition performs for the tasks of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from penstock.core import Resume
from penstock.partitions.state.state_partition import OffsetRange
from penstock.partitions.state.turns import BatchTurn, Blob, Report, SnapshotFile, StateVersion, Taken
from penstock.remote import PLAIN, TABLES, Effect, MessageCodec, Operation, operation

__all__ = ["END_STAGE", "RECEIVE_STAGE", "STATE_OPERATIONS", "STOP_PROCESS", "TAKE_STAGE", "WRITE_SNAPSHOT"]

_T = TypeVar("_T")


def _codec(kind: Any) -> MessageCodec[Any]:
    """Return the codec of a type of `turns`, as plain lists in which bytes stay bytes."""
    return MessageCodec(
        lambda value: msgspec.to_builtins(value, builtin_types=(bytes,)),
        lambda data: msgspec.convert(data, kind, builtin_types=(bytes,)),
    )


_TURN: MessageCodec[BatchTurn] = _codec(BatchTurn)
_BLOBS: MessageCodec[list[Blob]] = _codec(list[Blob])
_TAKEN: MessageCodec[Taken] = _codec(Taken)
_OFFSETS: MessageCodec[Mapping[str, OffsetRange]] = MessageCodec(
    lambda ranges: [[name, own.first, own.resume.offset, own.resume.spout_state] for name, own in ranges.items()],
    lambda data: {name: OffsetRange(first, Resume(offset, state)) for name, first, offset, state in data},
)
_STAGE: dict[str, MessageCodec[Any]] = {"turn": _TURN, "level": PLAIN, "blobs": _BLOBS}


def _of_partition(name: str) -> Callable[..., Any]:
    return lambda target, /, **arguments: getattr(target.partition, name)(**arguments)


STATE_OPERATIONS: dict[str, Operation[Any]] = {}
"""All operations of a state process, by name."""

TAKE_STAGE: Operation[Taken] = operation(
    STATE_OPERATIONS,
    "take",
    _TAKEN,
    Effect.TAKES,
    {"turn": _TURN, "base": _codec(StateVersion), "tables": TABLES, "offsets": _OFFSETS, "kinds": PLAIN},
    perform=_of_partition("take"),
)
RECEIVE_STAGE: Operation[Taken] = operation(
    STATE_OPERATIONS, "receive", _TAKEN, Effect.CHANGES, _STAGE, perform=_of_partition("receive")
)
END_STAGE: Operation[Report] = operation(
    STATE_OPERATIONS, "end", _codec(Report), Effect.CHANGES, _STAGE, perform=_of_partition("end")
)
WRITE_SNAPSHOT: Operation[SnapshotFile | None] = operation(
    STATE_OPERATIONS, "snapshot", _codec(SnapshotFile | None), Effect.READS, perform=_of_partition("snapshot")
)
STOP_PROCESS: Operation[None] = operation(STATE_OPERATIONS, "stop", PLAIN, Effect.CHANGES)
