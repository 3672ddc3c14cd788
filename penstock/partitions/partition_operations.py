"""The operations that a partition's process performs for the other processes of its store."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from penstock.core import Resume
from penstock.generations import BuildProgress
from penstock.partitions.member import Marks, Member, MemberStatus, Tables
from penstock.recovery import EarlySet, Production
from penstock.remote import (
    COUNTS,
    OPERATIONS,
    PLAIN,
    TABLES,
    Effect,
    MessageCodec,
    Operation,
    early_data,
    early_of,
    listed,
    operation,
    production_data,
    production_of,
)

__all__ = ["ALL_OPERATIONS"]

_SOURCES: MessageCodec[Mapping[str, Resume]] = MessageCodec(
    lambda sources: [[name, own.offset, own.spout_state, own.again] for name, own in sources.items()],
    lambda data: {name: Resume(offset, spout_state, again) for name, offset, spout_state, again in data},
)
_OTHERS: MessageCodec[Mapping[int, Tables]] = MessageCodec(
    lambda others: [[other, TABLES.encode(tables)] for other, tables in others.items()],
    lambda data: {other: TABLES.decode(tables) for other, tables in data},
)
_KINDS: MessageCodec[Mapping[str, str]] = MessageCodec(dict, dict)
_PRODUCTION: MessageCodec[Production] = MessageCodec(production_data, production_of)
_EARLY: MessageCodec[EarlySet] = MessageCodec(early_data, early_of)
_STANDING: MessageCodec[MemberStatus] = MessageCodec(MemberStatus.data, MemberStatus.of_data)
_MARKS: MessageCodec[Marks] = MessageCodec(Marks.data, Marks.of_data)
_PROGRESS = MessageCodec(BuildProgress.data, lambda data: BuildProgress(*data))


def _by_member(name: str) -> Callable[..., Any]:
    """Return a function that calls this method of the target's member."""
    return lambda target, **arguments: getattr(Member(target.store), name)(**arguments)


def _repair(target: Any, step: str, arguments: list[Any]) -> Any:
    return Member(target.store).repair(step, *arguments)


def _alive(target: object) -> bool:
    return True


_OPERATIONS: dict[str, Operation[Any]] = {}

ALL_OPERATIONS: Mapping[str, Operation[Any]] = ChainMap(OPERATIONS, _OPERATIONS)
"""The operations of a holder that may serve a partition, by name."""

_TRIAL: dict[str, MessageCodec[Any]] = {"tables": TABLES, "kinds": _KINDS}
_BATCH = _TRIAL | {"sources": _SOURCES, "number": PLAIN, "strict": PLAIN, "others": _OTHERS}
OWN = operation(_OPERATIONS, "own", listed(COUNTS), Effect.CHANGES, _BATCH, perform=_by_member("take"))
TRIED = operation(_OPERATIONS, "tried", listed(COUNTS), Effect.READS, _TRIAL, perform=_by_member("tried"))
RECEIVE: Operation[int] = operation(
    _OPERATIONS, "receive", PLAIN, Effect.CHANGES, {"production": _PRODUCTION}, perform=_by_member("receive")
)
HEAR: Operation[None] = operation(
    _OPERATIONS, "hear", PLAIN, Effect.CHANGES, {"early": _EARLY}, perform=_by_member("hear")
)
STANDING = operation(_OPERATIONS, "standing", _STANDING, Effect.CHANGES, perform=_by_member("standing"))
MARKS = operation(_OPERATIONS, "marks", _MARKS, Effect.READS, perform=_by_member("marks"))
BUILD_STEP = operation(
    _OPERATIONS,
    "build_step",
    _PROGRESS,
    Effect.CHANGES,
    {"limit": PLAIN, "switch": PLAIN, "of": PLAIN},
    perform=_by_member("build_step"),
)
SPOUT_STATE: Operation[bytes] = operation(
    _OPERATIONS, "spout_state", PLAIN, Effect.READS, {"source": PLAIN}, perform=_by_member("spout_state")
)
REPAIR: Operation[Any] = operation(
    _OPERATIONS,
    "repair",
    PLAIN,
    Effect.CHANGES,
    {"step": PLAIN, "arguments": MessageCodec(list, list)},
    perform=_repair,
)
ALIVE: Operation[bool] = operation(_OPERATIONS, "alive", PLAIN, Effect.READS, perform=_alive)
