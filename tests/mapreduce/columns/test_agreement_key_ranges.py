"""The owners of a few keys, computed in Python, equal those computed in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import encode_key, key_hash, mix
from penstock.mapreduce import KeyRanges, even_starts, key_lanes

_INTS = st.integers(-(1 << 63), (1 << 63) - 1)
_KEYS = st.lists(st.one_of(_INTS, st.integers(), st.floats(), st.text(max_size=9), st.booleans()), max_size=12)
_TURN = np.uint64(0x9E3779B97F4A7C15)


@given(_KEYS, st.integers(1, 9), st.integers(0, (1 << 63) - 1))
def test_few_keys_and_many_have_the_same_owners(keys: list[Any], partitions: int, seed: int) -> None:
    ranges = KeyRanges(even_starts(partitions), seed)
    encoded = [encode_key(key) for key in keys]
    one_by_one = [ranges.of(key) for key in encoded]
    assert ranges.of_encoded(encoded).tolist() == one_by_one
    padded = [*encoded, *map(encode_key, range(40))]
    assert ranges.of_encoded(padded).tolist()[: len(keys)] == one_by_one
    (k0, k1), refused = key_lanes(keys, seed)
    assert not refused
    assert ranges.of_lanes(k0, k1).tolist() == one_by_one
    starts = np.array(ranges.starts, np.uint64)
    assert (np.searchsorted(starts, mix(key_hash(k0, k1) + _TURN), side="right") - 1).tolist() == one_by_one
