"""Sealed rows detect damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache.encoding.checksum import seal, seal_many, unseal, unseal_many
from penstock.cache.errors import StoreDamaged


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_a_sealed_row_is_unsealed(key: bytes, payload: bytes) -> None:
    row = seal(key, payload)
    assert row[:-4] == payload
    assert len(row) == len(payload) + 4
    assert unseal(key, row, "here") == payload
    assert seal_many([(key, payload)]) == [(key, row)]
    assert unseal_many([key, key], [row, None], "here") == [payload, None]


@given(st.binary(min_size=1, max_size=20), st.binary(max_size=20), st.data())
def test_any_flipped_bit_is_damage(key: bytes, payload: bytes, data: st.DataObject) -> None:
    whole = bytearray(key + seal(key, payload))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    bad_key, row = bytes(whole[: len(key)]), bytes(whole[len(key) :])
    with pytest.raises(StoreDamaged, match=bad_key.hex()):
        unseal(bad_key, row, "state, rows")
    with pytest.raises(StoreDamaged, match="state, rows"):
        unseal_many([bad_key], [row], "state, rows")


@pytest.mark.parametrize("row", [b"", b"abc"])
def test_a_row_too_short_for_its_checksum_is_damage(row: bytes) -> None:
    with pytest.raises(StoreDamaged):
        unseal(b"key", row, "here")
    with pytest.raises(StoreDamaged):
        unseal_many([b"key"], [row], "here")


def test_the_layout_is_crc32c_big_endian_over_key_and_payload() -> None:
    assert seal(b"1234", b"56789") == b"56789" + (0xE3069283).to_bytes(4, "big")
