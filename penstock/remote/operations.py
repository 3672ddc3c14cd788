"""The operations of a store that another process may ask for, as one table for client and server.

An operation has a name, a codec for each argument and a codec for the answer. The client encodes the arguments and
decodes the answer. The server decodes the arguments, calls the method of its target, and encodes the answer.
A new operation is a new entry of this table, and a method of `OperationWriter` that names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.cache import decode_key, encode_key, normalise
from penstock.core import Batch, Compacted, Conditions, WriteResult
from penstock.generations import Refilled
from penstock.recovery import Checked, Repaired, Settled
from penstock.remote.wire_messages import (
    batch_data,
    batch_of,
    checked_data,
    checked_of_data,
    counts_data,
    counts_of_data,
    record_data,
    record_of,
    repaired_data,
    repaired_of_data,
    spout_batch_data,
    spout_batch_of,
    values_data,
)
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import ABSENT, Counts, Migrated

__all__ = [
    "COUNTS",
    "METERS",
    "OPERATIONS",
    "PLAIN",
    "SETTLE",
    "TABLES",
    "TAKE",
    "WRITE",
    "Effect",
    "MessageCodec",
    "Operation",
    "Tell",
    "listed",
    "operation",
]

A = TypeVar("A")
Tell = Callable[[Any], None]
"""Sends the progress of an operation to the client. A long operation calls it between its steps."""


@dataclass(frozen=True, slots=True)
class MessageCodec(Generic[A]):
    """Makes plain data of a value, and the value of plain data."""

    encode: Callable[[A], Any]
    decode: Callable[[Any], A]


class Effect(Enum):
    """The effect of an operation on the store. It decides what an error may say if no answer comes."""

    READS = "reads"
    TAKES = "takes records"
    CHANGES = "changes the store"


@dataclass(frozen=True, slots=True)
class Operation(Generic[A]):
    """One operation; `perform` does it at a target, which gets the arguments by name.

    With `reports` the target also gets `progress`. An operation whose argument `unless` is false only reads.
    """

    name: str
    answer: MessageCodec[A]
    arguments: Mapping[str, MessageCodec[Any]]
    effect: Effect
    perform: Callable[..., A]
    reports: bool = False
    unless: str | None = None

    def request(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Make the message of a client with these arguments."""
        return {"do": self.name} | {name: self.arguments[name].encode(value) for name, value in arguments.items()}

    def call(self, target: Any, arguments: Mapping[str, Any], progress: Callable[..., None] | None) -> A:
        """Perform the operation at a target in this process."""
        return self.perform(target, **arguments, **({"progress": progress} if self.reports else {}))

    def serve(self, target: Any, request: Mapping[str, Any], tell: Tell) -> Any:
        """Perform the operation for a client; the answer as plain data."""
        arguments = {name: codec.decode(request[name]) for name, codec in self.arguments.items()}
        return self.answer.encode(self.call(target, arguments, lambda *done: tell(list(done))))

    def effect_of(self, request: Mapping[str, Any]) -> Effect:
        """Return the effect of this request on the store."""
        return Effect.READS if self.unless is not None and not request[self.unless] else self.effect


def _same(value: Any) -> Any:
    return value


def listed(item: MessageCodec[A]) -> MessageCodec[list[A]]:
    """Make the codec of a list from the codec of its items."""
    return MessageCodec(
        lambda values: [item.encode(value) for value in values], lambda data: [item.decode(d) for d in data]
    )


def _optional(value: MessageCodec[A]) -> MessageCodec[A | None]:
    return MessageCodec(
        lambda found: None if found is None else value.encode(found),
        lambda data: None if data is None else value.decode(data),
    )


PLAIN: MessageCodec[Any] = MessageCodec(_same, _same)
COUNTS = MessageCodec(counts_data, counts_of_data)
TABLES: MessageCodec[dict[str, list[Batch]]] = MessageCodec(
    lambda tables: {name: [batch_data(batch) for batch in parts] for name, parts in tables.items()},
    lambda data: {name: [batch_of(batch) for batch in parts] for name, parts in data.items()},
)
_REPAIRED: MessageCodec[list[Repaired]] = MessageCodec(repaired_data, repaired_of_data)
_SETTLED = MessageCodec(Settled.data, Settled.of_data)
_REMEMBERED: MessageCodec[Remembered] = MessageCodec(
    lambda found: [found.offset, found.note], lambda data: Remembered(*data)
)
_RECORD: MessageCodec[Record] = MessageCodec(record_data, record_of)
_SPOUT_BATCH: MessageCodec[SpoutBatch] = MessageCodec(spout_batch_data, spout_batch_of)
_VALUES: MessageCodec[Mapping[str, Any]] = MessageCodec(values_data, _same)
_KEY: MessageCodec[Any] = MessageCodec(encode_key, decode_key)
_ENTRIES: dict[str, MessageCodec[Any]] = dict.fromkeys(("ids", "kind", "table", "view", "limit"), PLAIN)
_CHECKED: MessageCodec[Checked] = MessageCodec(checked_data, checked_of_data)
_COMPACTED = MessageCodec(Compacted.data, Compacted.of)
_MIGRATED: MessageCodec[Migrated] = MessageCodec(Migrated.data, Migrated.of)
_REFILLED = MessageCodec(Refilled.data, Refilled.of)
_FOLDER: MessageCodec[str | os.PathLike[str]] = MessageCodec(os.path.abspath, _same)


def operation(
    table: dict[str, Operation[Any]],
    name: str,
    answer: MessageCodec[A],
    effect: Effect,
    arguments: Mapping[str, MessageCodec[Any]] | None = None,
    *,
    perform: Callable[..., Any] | None = None,
    reports: bool = False,
    unless: str | None = None,
) -> Operation[A]:
    """Add an operation to a table. Without `perform` it calls the target's method of its name."""
    table[name] = own = Operation(name, answer, arguments or {}, effect, perform or _method(name), reports, unless)
    return own


def _method(name: str) -> Callable[..., Any]:
    return lambda target, /, **arguments: getattr(target, name)(**arguments)


def _load(target: Any, table: str, batch: SpoutBatch) -> Counts:
    return sum((counts for _, counts in target.load(table, [batch], long=False)), Counts())


def _memory(target: Any) -> dict[str, Any]:
    """Give the bytes in use, about: by table, by view and in all."""
    status = target.status()
    named = {kind: {name: about["memory"] for name, about in status[kind].items()} for kind in ("tables", "views")}
    return {"memory": status["memory"], **named}


_WRITTEN: MessageCodec[WriteResult] = MessageCodec(
    lambda done: [counts_data(done.counts), done.upto], lambda data: WriteResult(counts_of_data(data[0]), data[1])
)


def _conditions_data(conditions: Conditions | None) -> list[Any]:
    return [
        [name, [[encode_key(key), None if ts is ABSENT else [normalise(ts)]] for key, ts in own]]
        for name, own in (conditions or {}).items()
    ]


def _conditions_of(data: list[Any]) -> Conditions:
    return {name: [(decode_key(key), ABSENT if ts is None else ts[0]) for key, ts in own] for name, own in data}


OPERATIONS: dict[str, Operation[Any]] = {}
"""All operations of a store, by name."""

TAKE = operation(OPERATIONS, "take", COUNTS, Effect.TAKES, {"tables": TABLES, "strict": PLAIN, "atomic": PLAIN})
WRITE = operation(
    OPERATIONS,
    "write",
    _WRITTEN,
    Effect.TAKES,
    {
        "tables": TABLES,
        "strict": PLAIN,
        "session": PLAIN,
        "number": PLAIN,
        "conditions": MessageCodec(_conditions_data, _conditions_of),
        "dry_run": PLAIN,
    },
)
INGEST = operation(
    OPERATIONS, "ingest", COUNTS, Effect.TAKES, {"records": listed(_RECORD), "source": PLAIN, "resume": PLAIN}
)
LOAD = operation(OPERATIONS, "load", COUNTS, Effect.TAKES, {"table": PLAIN, "batch": _SPOUT_BATCH}, perform=_load)
REMEMBERED = operation(OPERATIONS, "remembered", _optional(_REMEMBERED), Effect.READS, {"source": PLAIN})
SETTLE: Operation[None] = operation(OPERATIONS, "settle", PLAIN, Effect.READS)
ADVANCE: Operation[None] = operation(
    OPERATIONS, "advance", PLAIN, Effect.CHANGES, {"stream": PLAIN, "low": PLAIN, "source": PLAIN}
)
REST: Operation[None] = operation(
    OPERATIONS, "rest", PLAIN, Effect.CHANGES, {"sources": MessageCodec(list, _same), "ended": PLAIN}
)
COMPACT = operation(OPERATIONS, "compact", _COMPACTED, Effect.CHANGES, reports=True)
REPOST = operation(OPERATIONS, "repost_many", _REPAIRED, Effect.CHANGES, {"values": _VALUES}, reports=True)
RESTATE = operation(
    OPERATIONS, "restate", _REPAIRED, Effect.CHANGES, {"name": PLAIN, "key_or_group": _optional(_KEY)}, reports=True
)
RETRY = operation(OPERATIONS, "retry", _SETTLED, Effect.CHANGES, _ENTRIES, reports=True)
DROP = operation(OPERATIONS, "drop", _SETTLED, Effect.CHANGES, _ENTRIES, reports=True)
CHECK = operation(OPERATIONS, "check", _CHECKED, Effect.CHANGES, {"fix": PLAIN}, reports=True, unless="fix")
MIGRATE = operation(OPERATIONS, "migrate_as", _MIGRATED, Effect.CHANGES, {"wanted": PLAIN}, reports=True)
BEGIN_REFILL: Operation[int] = operation(
    OPERATIONS, "begin_refill", PLAIN, Effect.CHANGES, {"tables": MessageCodec(list, _same), "wanted": PLAIN}
)
REFILL = operation(OPERATIONS, "refill", _REFILLED, Effect.CHANGES, {"folder": _FOLDER}, reports=True)
MEMORY: Operation[dict[str, Any]] = operation(OPERATIONS, "memory", PLAIN, Effect.READS, perform=_memory)
METERS: Operation[dict[str, Any]] = operation(
    OPERATIONS, "meters", PLAIN, Effect.READS, perform=lambda target: target.meters.data()
)
