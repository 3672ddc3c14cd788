"""The offset of a source partition after a batch, and the row with its spout state, written with its batches.

The offsets themselves are in the state row (`store_state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from penstock.cache import META, Reader, Writer, seal, unseal
from penstock.flow import PUT


@dataclass(frozen=True, slots=True)
class Resume:
    """The offset of a source partition after a batch, and its spout state.

    The offset only grows, unless the source partition begins `again`. `rests` says that nothing is left to read.
    """

    offset: int
    spout_state: bytes = b""
    again: bool = False
    rests: bool = False


def origin_of(sources: Mapping[str, Resume] | None) -> tuple[str, bool]:
    """Return the source partition of a batch, and True if nothing is left to read after it.

    >>> origin_of({"file:a": Resume(7)}), origin_of(None)
    (('file:a', False), ('put', True))
    """
    for name, resume in (sources or {}).items():
        return name, resume.rests
    return PUT, True


def read_spout_state(reader: Reader, source: str) -> bytes:
    """Read the spout state of a source partition; empty if there is none."""
    key = _spout_state_key(source)
    row = reader.get_many(META, [key])[0]
    if row is None:
        return b""
    name, state = msgspec.msgpack.decode(unseal(key, row, META), type=tuple[str, bytes])
    assert name == source, f"the notes of {name!r} and {source!r} have one key"
    return state


def write_spout_states(writer: Writer, sources: Mapping[str, Resume]) -> None:
    """Write the spout states of source partitions, within a batch. One that begins again loses its former state."""
    rows = [
        (_spout_state_key(name), [name, resume.spout_state])
        for name, resume in sources.items()
        if resume.spout_state or resume.again
    ]
    writer.put_many(META, [(key, seal(key, msgspec.msgpack.encode(row))) for key, row in sorted(rows)])


def _spout_state_key(source: str) -> bytes:
    """Hash the name of a source partition, because it may contain a path longer than a key."""
    return b"source:" + blake2b(source.encode(), digest_size=32).digest()
