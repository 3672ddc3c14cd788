"""Hashes of encoded keys as two lanes of 64 bits. The second lane is odd, unlike that of 64-bit ints."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash

from penstock.cache import Lane

__all__ = ["hash_lane", "hash_lanes"]

_ODD = np.uint64(1)
_LANE = (1 << 64) - 1


def hash_lanes(encoded: Iterable[bytes], seed: int) -> tuple[Lane, Lane]:
    """Hash encoded keys that are not 64-bit ints to lanes."""
    digests = b"".join([xxhash.xxh3_128_digest(key, seed) for key in encoded])
    pair = np.frombuffer(digests, ">u8").reshape(-1, 2)
    return pair[:, 1].astype(np.uint64), pair[:, 0].astype(np.uint64) | _ODD


def hash_lane(encoded: bytes, seed: int) -> tuple[int, int]:
    """Hash one encoded key that is not a 64-bit int to lanes."""
    digest = xxhash.xxh3_128_intdigest(encoded, seed)
    return digest & _LANE, digest >> 64 | 1
