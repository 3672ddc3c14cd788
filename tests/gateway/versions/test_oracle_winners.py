"""Compare `decide` over columns with one record after another."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.versions.version_stamps import stamps_of
from penstock.gateway.versions.winners import Outcome, StoredVersions, decide


@dataclass
class Current:
    """The stored version of one key: a document, or None if it is deleted, and its ts."""

    doc: Any
    ts: Any = None


@dataclass(frozen=True)
class Put:
    """A record: a document, or None for a deletion."""

    slot: int
    doc: Any
    ts: Any


def one_by_one(records: list[Put], stored: dict[int, Current], stamped: bool) -> list[Outcome]:
    """Return the outcomes of the records, one after another. Update `stored` with them."""
    out = []
    for record in records:
        had = stored.get(record.slot)
        if had is not None and stamped and record.ts < had.ts:
            out.append(Outcome.LATE)
            continue
        same = had is None if record.doc is None and not stamped else had is not None and had.doc == record.doc
        if same and (not stamped or (had is not None and had.ts == record.ts)):
            out.append(Outcome.EQUAL)
            continue
        out.append(Outcome.APPLIED)
        if record.doc is None and not stamped:
            del stored[record.slot]
        else:
            stored[record.slot] = Current(record.doc, record.ts)
    return out


# Keys, documents and ts are few, so that they repeat. The ts have several widths, so that columns are lanes or pairs.
STAMPS = st.integers(0, 3) | st.sampled_from([0, 1, 1.5, (1 << 53) + 1, 2.0**53, 1 << 63, -0.5])
DOCS = st.sampled_from(["a", "b", None])
BATCHES = st.lists(st.builds(Put, st.integers(0, 4), DOCS, STAMPS), min_size=1, max_size=14)
KNOWN = st.dictionaries(st.integers(0, 4), st.builds(Current, DOCS, STAMPS), max_size=5)


def _decided(records: list[Put], before: dict[int, Current], stamped: bool) -> tuple[list[int], dict[int, Put]]:
    slots = np.array([r.slot for r in records], np.int64)
    had = [before.get(r.slot) for r in records]
    ts = stamps_of([r.ts for r in records], None, set())[0] if stamped else None
    stored = StoredVersions(
        np.array([h is not None and h.doc is not None for h in had], bool),
        np.array([h is not None and h.doc is None for h in had], bool),
        stamps_of([0 if h is None else h.ts for h in had], None, set())[0] if stamped else None,
    )
    deletes = np.array([r.doc is None for r in records], bool)

    def same(i: int, j: int) -> bool:
        assert records[i].slot == records[j].slot
        assert records[i].doc is not None
        return bool(records[i].doc == records[j].doc)

    def same_as_stored(which: Any) -> Any:
        assert all(before[records[i].slot].doc is not None for i in which.tolist())
        return np.array([records[i].doc == before[records[i].slot].doc for i in which.tolist()], bool)

    got = decide(slots, deletes if deletes.any() else None, ts, stored, same, same_as_stored)
    assert got.slots.tolist() == slots[got.winners].tolist()
    winners = {records[i].slot: records[i] for i in got.winners.tolist()}
    assert len(winners) == got.winners.size
    return got.outcome.tolist(), winners


def _check(records: list[Put], before: dict[int, Current], stamped: bool) -> None:
    after = dict(before)
    expected = one_by_one(records, after, stamped)
    outcome, winners = _decided(records, before, stamped)
    assert outcome == [int(o) for o in expected]
    for slot in range(5):
        if slot in winners:
            doc, ts = winners[slot].doc, winners[slot].ts
            if doc is None and not stamped:
                assert slot in before
                assert slot not in after
            else:
                assert (after[slot].doc, after[slot].ts if stamped else ts) == (doc, ts)
            assert not stamped or slot not in before or before[slot] != after[slot]
        else:  # nothing is written: the stored version equals the result of the records
            assert (slot in before) == (slot in after)
            assert slot not in before or before[slot].doc == after[slot].doc
            assert not stamped or slot not in before or before[slot].ts == after[slot].ts


@given(BATCHES, KNOWN)
def test_by_ts(records: list[Put], before: dict[int, Current]) -> None:
    _check(records, before, True)


@given(BATCHES, KNOWN)
def test_by_arrival(records: list[Put], known: dict[int, Current]) -> None:
    _check(records, {slot: own for slot, own in known.items() if own.doc is not None}, False)


@given(BATCHES, KNOWN, st.data())
def test_cut_anywhere(records: list[Put], before: dict[int, Current], data: st.DataObject) -> None:
    """A batch cut in two has the same outcomes and the same result."""
    cut = data.draw(st.integers(1, len(records)))
    whole, _ = _decided(records, before, True)
    first, winners = _decided(records[:cut], before, True)
    between = {**before, **{slot: Current(put.doc, put.ts) for slot, put in winners.items()}}
    second = _decided(records[cut:], between, True)[0] if cut < len(records) else []
    assert first + second == whole


def test_a_batch_that_ends_where_it_began_writes_nothing() -> None:
    records = [Put(0, "b", 5), Put(0, "a", 5)]
    outcome, winners = _decided(records, {0: Current("a", 5)}, True)
    assert outcome == [Outcome.APPLIED, Outcome.APPLIED]
    assert winners == {}


def test_slots_beyond_32_bits() -> None:
    slots = np.array([1 << 33, 1, 1 << 33], np.int64)
    absent = StoredVersions(np.zeros(3, bool), np.zeros(3, bool), None)
    got = decide(slots, None, None, absent, lambda i, j: False, lambda which: np.zeros(which.size, bool))
    assert got.winners.tolist() == [1, 2]
