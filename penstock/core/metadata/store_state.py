"""The state row of a store, written with every batch: its position, the offsets of its sources, its counts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.cache import META, Reader, Writer, seal, unseal
from penstock.mapreduce import Writes

_STATE = b"state"


class StateRow(msgspec.Struct, frozen=True):
    """The state of a store, committed with the data."""

    position: int = 0
    epoch: int = 0
    sources: dict[str, int] = {}
    ts: dict[str, str] = {}
    rejected: dict[str, int] = {}
    held_groups: dict[str, int] = {}
    quarantined: int = 0  # records that were ever put into quarantine
    kept: dict[str, int] = {}  # by table: the records in quarantine now
    fed: int = 0  # changes that were ever fed
    fed_bytes: int = 0
    followed: int = 0  # the oldest position from which the feed can be followed
    sent: dict[int, int] = {}  # by partition the number of the last production that it is owed
    taken: dict[int, tuple[int, int]] = {}  # by partition its epoch, and the number of its last applied production
    batch: int = 0  # the number of the last batch that the holder gave this partition
    guard: dict[int, tuple[int, int, int]] = {}  # by partition the order of its last applied message
    early: bool = False  # some view may have sent early sets
    counted: bool = False  # the store keeps digests of its keys
    told_at: dict[int, int] = {}  # by partition the position of its early set, until its batch is known to be saved
    unheard: dict[int, int] = {}  # by partition that was not reached since, the last saved batch before that
    batches: dict[int, int] = {}  # by partition the number of the last production with its records of a batch


_decode_state = msgspec.msgpack.Decoder(StateRow).decode


def added(counts: dict[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return counts by name, with these added."""
    return {**counts, **{name: counts.get(name, 0) + n for name, n in more.items() if n}}


def state_after(
    old: StateRow, writes: Writes, refused: Mapping[str, int], sources: dict[str, int], kinds: dict[str, str], fed: bool
) -> StateRow:
    """Return the state after a transaction that refused so many records by table.

    `kinds` are those of the ts of tables; `fed` tells if the feed is on.
    """
    position = old.position + writes.changed
    return msgspec.structs.replace(
        old,
        position=position,
        followed=old.followed if fed or not writes.changed else position,
        sources=sources,
        ts=kinds,
        rejected=added(old.rejected, refused),
        held_groups=added(old.held_groups, writes.held_groups),
        quarantined=old.quarantined + writes.numbered,
        kept=added(old.kept, writes.kept),
    )


def read_state(reader: Reader) -> StateRow:
    """Read the state."""
    row = reader.get_many(META, [_STATE])[0]
    return StateRow() if row is None else _decode_state(unseal(_STATE, row, META))


def write_state(writer: Writer, state: StateRow) -> None:
    """Write the state, within a batch."""
    writer.put_many(META, [(_STATE, seal(_STATE, msgspec.msgpack.encode(state)))])
