"""Hold fetched chunks of a topic, with and without their whole records, and return them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka import Chunk, Fields
from penstock.spout.kafka_buffer import _BYTES, KafkaBuffer

FIELDS = Fields(itemgetter(2), itemgetter(1), itemgetter(0), itemgetter(3), lambda record: ())
VALUES = (b'{"id": 1}', b'{"id": 22}', b"no", b"", None)


def chunk(partition: int, first: int, values: list[bytes | None], lean: bool, gap: int = 0) -> Chunk:
    """Return a chunk with a gap of `gap` offsets after its first record."""
    rows = [(first + i + (gap if i else 0), b"%d" % i, value, 7) for i, value in enumerate(values)]
    return Chunk.of(partition, rows, FIELDS, lean)


def rows(own: Chunk) -> list[tuple[int, Any]]:
    return list(zip(own.offsets, own.values, strict=True))


chunks = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.sampled_from(VALUES), min_size=1, max_size=9), st.integers(0, 1)),
    max_size=12,
)


@given(chunks, st.integers(1, 20), st.booleans())
def test_each_partition_is_returned_completely_and_in_order(parts: list[Any], limit: int, lean: bool) -> None:
    held, wanted, ends = KafkaBuffer(), dict[int, list[Any]](), dict[int, int]()
    for partition, values, gap in parts:
        own = chunk(partition, ends.get(partition, 0), values, lean, gap)
        assert own.size == sum(len(value or b"") for value in values)
        ends[partition] = own.offsets[-1] + 1
        wanted.setdefault(partition, []).extend(rows(own))
        held.add(own)
    given: dict[int, list[Any]] = {}
    order = list(wanted)
    while (own := held.take(limit)) is not None:
        assert 0 < len(own) <= limit
        assert own.partition in order
        given.setdefault(own.partition, []).extend(rows(own))
        for place, value in enumerate(own.values):
            if not lean or (value or b"")[:1] != b"{":
                assert own.time(place) == 7
        assert not own.plain or all(value[:1] == b"{" for value in own.values)
    assert given == wanted
    assert not held
    assert held.room(limit) == limit


def test_lean_chunks_keep_only_values_beside_other_chunks() -> None:
    lean, whole = chunk(0, 0, [VALUES[0]] * 3, True), chunk(0, 3, [VALUES[1], None], True)
    assert not lean.records
    assert whole.records
    both = Chunk.join([lean, whole])
    assert [both.time(place) for place in range(5)] == [None, None, None, 7, 7]
    assert both.key(4) == b"1"
    assert (both.plain, both.size, list(both.offsets)) == (False, lean.size + whole.size, [0, 1, 2, 3, 4])
    assert Chunk.join([lean, chunk(0, 3, [VALUES[1]], True)]).plain


def test_fetching_ends_with_a_full_batch_or_enough_records() -> None:
    held = KafkaBuffer()
    held.add(chunk(0, 0, [VALUES[0]] * 30, True))
    held.add(chunk(1, 0, [VALUES[0]] * 10, True))
    assert held.room(100) == 70
    assert held.room(30) == 0
    for partition in range(2, 40):
        held.add(chunk(partition, 0, [VALUES[0]] * 9, True))
    assert held.room(90) == 0, "four batches are held, though of no partition a whole one"
    large = KafkaBuffer()
    large.add(chunk(0, 0, [b"{" + bytes(_BYTES)], True))
    assert large.room(1_000) == 0
    first = large.take(1)
    assert first is not None
    assert large.take(1) is None
