"""Ranges of key hashes: each partition owns one range of the 64-bit hashes of document keys and groups.

The hash is computed from the lanes of a key (`cache/log/key_slots`), so a column of document keys costs a few NumPy
calls. It is mixed once more than the hash that orders an index. So within one partition the index hashes stay spread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Lane, decode_key, key_hash, mix, mix_one
from penstock.mapreduce.columns.hash_lanes import hash_lane, hash_lanes

_NUMBER = 0x04
_TURN_ONE = 0x9E3779B97F4A7C15
_TURN = np.uint64(_TURN_ONE)
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_SPAN = 1 << 64
_FEW = 16  # limit of keys up to which Python is faster than NumPy's fixed cost


def even_starts(n: int) -> tuple[int, ...]:
    """Return the starts of n ranges of equal size.

    >>> [hex(start) for start in even_starts(2)]
    ['0x0', '0x8000000000000000']
    """
    return tuple(i * _SPAN // n for i in range(n))


class KeyRanges:
    """The ranges of a store's partitions, given by their starts. `seed` is the seed of its key hashes."""

    def __init__(self, starts: Sequence[int], seed: int) -> None:
        assert starts[0] == 0, "ranges cover all hashes"
        assert list(starts) == sorted(set(starts)), "ranges come in order"
        self.starts = tuple(starts)
        self.seed = seed
        self._bounds: Lane = np.array(starts[1:], np.uint64)

    def __len__(self) -> int:
        return len(self.starts)

    def of_lanes(self, lane0: Lane, lane1: Lane | None) -> NDArray[np.int64]:
        """Return the owners of keys with these lanes."""
        if lane0.size <= _FEW:
            second = [0] * lane0.size if lane1 is None else lane1.tolist()
            return np.array(list(map(self._of_lane, lane0.tolist(), second)), np.int64)
        return np.searchsorted(self._bounds, mix(key_hash(lane0, lane1) + _TURN), side="right")

    def of_encoded(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the owners of encoded keys."""
        if len(keys) <= _FEW:
            return np.array(list(map(self.of, keys)), np.int64)
        lane0, lane1 = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
        hashed: list[int] = []
        for i, key in enumerate(keys):
            own = _lane_of(key)
            if own is None:
                hashed.append(i)
            else:
                lane0[i] = own
        if hashed:
            lane0[hashed], lane1[hashed] = hash_lanes([keys[i] for i in hashed], self.seed)
        return self.of_lanes(lane0, lane1)

    def of(self, key: bytes) -> int:
        """Return the owner of one encoded key."""
        own = _lane_of(key)
        return self._of_lane(*hash_lane(key, self.seed)) if own is None else self._of_lane(own, 0)

    def _of_lane(self, lane0: int, lane1: int) -> int:
        return bisect_right(self.starts, mix_one((mix_one(lane0 ^ lane1) + _TURN_ONE) % _SPAN)) - 1


def _lane_of(key: bytes) -> int | None:
    """Return the first lane of a 64-bit int key, or None for any other key."""
    own = decode_key(key) if key[0] == _NUMBER else None
    return own & (_SPAN - 1) if type(own) is int and _INT_MIN <= own <= _INT_MAX else None
