"""The row of a document that a view holds: its key, why, and what the view was last told of it."""

from __future__ import annotations

from penstock.cache import pack, seal, unpack, unseal
from penstock.mapreduce.maps.emissions import Pairs
from penstock.mapreduce.maps.function_map import Hold


def held_row(key: bytes, whole: bytes, hold: Hold, pairs: Pairs) -> bytes:
    """The row of a held document: its key, why, and what the view was last told of it."""
    return seal(key, pack([whole, hold.reason, hold.trace, [[group, value] for group, value in pairs]]))


def read_held(key: bytes, row: bytes, where: str) -> tuple[bytes, Hold, Pairs]:
    """What a row of a held document says."""
    whole, reason, trace, pairs = unpack(unseal(key, row, where))
    return whole, Hold(reason, trace), [(group, value) for group, value in pairs]
