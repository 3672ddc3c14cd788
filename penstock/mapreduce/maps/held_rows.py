"""Held rows: one for each document or parent row that a view holds, with the contributions that still count."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cache import pack, seal, unpack, unseal
from penstock.mapreduce.maps.emissions import Pairs
from penstock.mapreduce.maps.function_map import Hold

__all__ = ["Held", "held_in", "held_row"]


class Held(NamedTuple):
    """The row of a document that a view holds."""

    whole: bytes  # the encoded key
    hold: Hold
    pairs: Pairs  # the contributions that count until the view can take a version


def held_row(key: bytes, whole: bytes, hold: Hold, pairs: Pairs) -> bytes:
    """Return the row of a held document: its key, the reason, and the contributions that still count."""
    return seal(key, pack([whole, hold.reason, hold.trace, [[group, value] for group, value in pairs]]))


def held_in(key: bytes, row: bytes, db: str) -> Held:
    """Decode a held row of a database."""
    whole, reason, trace, pairs = unpack(unseal(key, row, db))
    return Held(whole, Hold(reason, trace), [(group, value) for group, value in pairs])
