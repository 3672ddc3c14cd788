"""Parse RFC 3339: every part of the form, and instants compared with Python's own datetimes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache.encoding.timestamps import parse_rfc3339


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:00-00:00", 0),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T00:00:00.1Z", 100_000_000),
        ("1970-01-01T05:30:00.000000001+05:30", 1),
        ("1969-12-31T16:00:00-08:00", 0),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
        ("2016-12-31T23:59:60.5Z", 1_483_228_800_500_000_000),
        ("1990-12-31T15:59:60-08:00", 662_688_000_000_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000_000),
        ("9999-12-31T23:59:59.999999999-23:59", 253_402_387_139_999_999_999),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
    ],
)
def test_the_instant(text: str, nanoseconds: int) -> None:
    assert parse_rfc3339(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-31",
        "2024-01-31T08:00:00",
        "2024-01-31T08:00Z",
        "2024-01-31T08:00:00.Z",
        "2024-01-31T08:00:00.0123456789Z",
        "2024-01-31T08:00:00+0100",
        "2024-01-31T08:00:00+24:00",
        "2024-01-31T08:00:00+01:60",
        "2024-01-31T24:00:00Z",
        "2024-01-31T08:60:00Z",
        "2024-01-31T08:00:61Z",
        "2024-01-31T08:00:60Z",
        "2016-12-31T23:59:60+01:00",
        "2023-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z",
        "2024-01-31T08:00:00Z\n",
        " 2024-01-31T08:00:00Z",
        "٢٠٢٤-01-31T08:00:00Z",
        "2024-1-31T08:00:00Z",
        "-2024-01-31T08:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not RFC 3339|is no date|no such offset|no time of day|no leap second"):
        parse_rfc3339(text)


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),
    st.integers(-1439, 1439),
    st.integers(0, 999),
    st.sampled_from("Tt "),
)
def test_the_instant_of_a_datetime(moment: datetime, minutes: int, nanos: int, between: str) -> None:
    offset = timezone(timedelta(minutes=minutes))
    day, clock = moment.isoformat(timespec="microseconds").split("T")
    shift = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    microseconds = (moment.replace(tzinfo=offset) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_rfc3339(f"{day}{between}{clock}{nanos:03}{shift}") == microseconds * 1000 + nanos
