"""Convert ints to decimal text, beyond Python's limit."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache.big_ints import int_to_text, text_to_int


@given(st.integers(0, 40_000), st.integers(-3, 3), st.sampled_from([2, 10]), st.booleans())
def test_conversions_equal_those_of_python(size: int, off: int, base: int, minus: bool) -> None:
    value = (base**size + off) * (-1 if minus else 1)
    limit = sys.get_int_max_str_digits()
    text = int_to_text(value)
    try:
        sys.set_int_max_str_digits(640)
        assert text == int_to_text(value)
        assert text_to_int(text) == value
        sys.set_int_max_str_digits(0)
        assert text == str(value)
    finally:
        sys.set_int_max_str_digits(limit)


@given(st.binary(min_size=2_000, max_size=4_000))
def test_a_number_survives_both_conversions(data: bytes) -> None:
    value = int.from_bytes(data, "big")
    assert text_to_int(int_to_text(value)) == value


def test_leading_zeros_are_dropped() -> None:
    assert text_to_int("0" * 5_000 + "7") == 7
    assert text_to_int("1" + "0" * 9_999) == 10**9_999


@pytest.mark.parametrize("text", ["", "-", "x", "1" * 700 + "x", "x" + "1" * 5_000])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        text_to_int(text)
