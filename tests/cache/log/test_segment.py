"""Encode segments and read them back, line by line. Every flipped bit is detected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache.errors import StoreDamaged
from penstock.cache.log.segment import Segment, build_segment

LINES = st.lists(st.binary(max_size=12), min_size=1, max_size=70)


def _built(lines: list[bytes], hashed: bool, some_gone: bool, base: int = 40) -> bytes:
    n = len(lines)
    k0 = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    gone = np.arange(n) % 3 == 0 if some_gone else None
    return build_segment(base, lines, k0, k0 | np.uint64(1) if hashed else None, gone)


@given(LINES, st.booleans(), st.booleans(), st.data())
def test_round_trip(lines: list[bytes], hashed: bool, some_gone: bool, data: st.DataObject) -> None:
    value = _built(lines, hashed, some_gone)
    segment = Segment.parse(40, value, "log:1")
    n = len(lines)
    assert len(segment) == n
    assert segment.k0.tolist() == [(i * 0x9E3779B97F4A7C15) % (1 << 64) for i in range(n)]
    assert (segment.k1 is not None) is hashed
    assert segment.k1 is None or segment.k1.tolist() == (segment.k0 | np.uint64(1)).tolist()
    assert (None if segment.gone is None else segment.gone.tolist()) == (
        [i % 3 == 0 for i in range(n)] if some_gone else None
    )
    at = data.draw(st.lists(st.integers(0, n - 1), max_size=20))
    assert segment.lines(np.array(at, np.int64)) == [lines[i] for i in at]
    assert segment.lines(np.arange(n)) == lines


@given(LINES, st.booleans(), st.booleans(), st.data())
def test_a_flipped_bit_is_found(lines: list[bytes], hashed: bool, some_gone: bool, data: st.DataObject) -> None:
    value = bytearray(_built(lines, hashed, some_gone))
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    value[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreDamaged):
        Segment.parse(40, bytes(value), "log:1").lines(np.arange(len(lines)))


def test_every_flipped_bit_of_a_small_segment_is_found() -> None:
    good = _built([b'{"a":1}', b"\x90", b'{"b":2}'], True, True)
    for bit in range(8 * len(good)):
        value = bytearray(good)
        value[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreDamaged):
            Segment.parse(40, bytes(value), "log:1").lines(np.arange(3))


def test_only_the_lines_asked_for_are_checked() -> None:
    value = bytearray(_built([b"0123456789"] * 40, False, False))
    value[-1] ^= 1
    segment = Segment.parse(40, bytes(value), "log:7")
    assert segment.lines(np.array([0, 31])) == [b"0123456789"] * 2
    with pytest.raises(StoreDamaged, match="log:7, log entry 40, lines 32"):
        segment.lines(np.array([39]))


@given(st.integers(0, 200))
def test_a_part_is_no_segment(size: int) -> None:
    value = _built([b"{}"] * 20, True, False)
    with pytest.raises(StoreDamaged, match="log entry 40"):
        Segment.parse(40, value[: min(size, len(value) - 41)], "log:1")


def test_a_segment_under_the_key_of_another_is_damage() -> None:
    value = _built([b"{}"] * 3, False, False, base=40)
    with pytest.raises(StoreDamaged):
        Segment.parse(43, value, "log:1")
