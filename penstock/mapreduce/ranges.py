"""Which partition owns a key: each owns a range of the 64-bit hashes of encoded keys, of documents and groups alike.

The hash follows from the lanes of a key (`penstock.cache.slots`), so that a column of document keys costs a few NumPy
calls. It is mixed once more than the hash by which an index orders keys: within one partition these stay spread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Lane, decode_key, key_hash, mix
from penstock.mapreduce.extract import hash_lanes

_NUMBER = 0x04
_TURN = np.uint64(0x9E3779B97F4A7C15)
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_SPAN = 1 << 64


def even_starts(n: int) -> tuple[int, ...]:
    """Where n ranges of one size begin.

    >>> [hex(start) for start in even_starts(2)]
    ['0x0', '0x8000000000000000']
    """
    return tuple(i * _SPAN // n for i in range(n))


class Ranges:
    """The ranges of a store's partitions, by where each begins; `seed` is that of the hashes of its keys."""

    def __init__(self, starts: Sequence[int], seed: int) -> None:
        assert starts[0] == 0, "ranges cover all hashes"
        assert list(starts) == sorted(set(starts)), "ranges come in order"
        self.starts = tuple(starts)
        self.seed = seed
        self._bounds: Lane = np.array(starts[1:], np.uint64)

    def __len__(self) -> int:
        return len(self.starts)

    def of_lanes(self, lane0: Lane, lane1: Lane | None) -> NDArray[np.int64]:
        """The owners of keys with these lanes."""
        return np.searchsorted(self._bounds, mix(key_hash(lane0, lane1) + _TURN), side="right")

    def of_encoded(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The owners of keys encoded so."""
        lane0, lane1 = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
        hashed: list[int] = []
        for i, key in enumerate(keys):
            own = decode_key(key) if key[0] == _NUMBER else None
            if type(own) is int and _INT_MIN <= own <= _INT_MAX:
                lane0[i] = own & (_SPAN - 1)
            else:
                hashed.append(i)
        if hashed:
            lane0[hashed], lane1[hashed] = hash_lanes([keys[i] for i in hashed], self.seed)
        return self.of_lanes(lane0, lane1)

    def of(self, key: bytes) -> int:
        """The owner of one key encoded so."""
        return int(self.of_encoded([key])[0])
