"""Compare `decide` over columns, and `decide_each`, with a model of one record after another."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.intake.intake import Records
from penstock.gateway.versions.precedence import DOCUMENT, TOMBSTONE, Outcome
from penstock.gateway.versions.version_stamps import Stamps, stamps_of
from penstock.gateway.versions.winners import CurrentVersion, StoredVersions, decide, decide_each
from penstock.mapreduce import DecodedColumns


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


def _decided_each(
    records: list[Put], before: dict[int, Current], stamped: bool
) -> tuple[list[int], dict[int, Put], list[Any]]:
    """Decide the records one by one. Return also their ts, those of deletions without one included."""

    def stored(slot: int) -> CurrentVersion:
        had = before.get(slot)
        if had is None:
            return CurrentVersion(0)
        return CurrentVersion(TOMBSTONE if had.doc is None else DOCUMENT, had.ts if stamped else None)

    def same(i: int, j: int) -> bool:
        assert records[i].slot == records[j].slot
        assert records[i].doc is not None
        return bool(records[i].doc == records[j].doc)

    def same_as_stored(i: int) -> bool:
        assert before[records[i].slot].doc is not None
        return bool(records[i].doc == before[records[i].slot].doc)

    ts = [r.ts for r in records]
    deletes = [r.doc is None for r in records]
    own = ts if stamped else None
    outcome, at = decide_each([r.slot for r in records], deletes, own, stored, same, same_as_stored)
    assert at == sorted(at)
    winners = {records[i].slot: Put(records[i].slot, records[i].doc, ts[i]) for i in at}
    assert len(winners) == len(at)
    return list(outcome), winners, ts


def _check(records: list[Put], before: dict[int, Current], stamped: bool) -> None:
    outcome, winners = _decided(records, before, stamped)
    _check_result(records, before, stamped, outcome, winners)
    outcome, winners, _ = _decided_each(records, before, stamped)
    _check_result(records, before, stamped, outcome, winners)


def _check_result(
    records: list[Put], before: dict[int, Current], stamped: bool, outcome: list[int], winners: dict[int, Put]
) -> None:
    after = dict(before)
    expected = one_by_one(records, after, stamped)
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


@given(st.lists(st.builds(Put, st.integers(0, 2), DOCS, STAMPS | st.none()), min_size=1, max_size=10), KNOWN)
def test_a_deletion_without_ts_gets_the_same_one_in_both_forms(records: list[Put], before: dict[int, Current]) -> None:
    records = [r if r.ts is not None or r.doc is None else Put(r.slot, r.doc, 1) for r in records]
    outcome, winners, ts = _decided_each(records, before, True)
    settled, void = _settled(records, before)
    rest = [
        Put(r.slot, r.doc, own)
        for r, own, lost in zip(records, settled.column().values(), void, strict=True)
        if not lost
    ]
    others = iter(_decided(rest, before, True)[0] if rest else [])
    assert outcome == [Outcome.EQUAL if lost else next(others) for lost in void]
    assert [own is None for own in ts] == void
    if rest:
        assert {slot: (r.doc, r.ts) for slot, r in winners.items()} == {
            slot: (r.doc, r.ts) for slot, r in _decided(rest, before, True)[1].items()
        }


def _settled(records: list[Put], before: dict[int, Current]) -> tuple[Stamps, list[bool]]:
    """Return the ts of the records as the columns have them, and the deletions of keys without a version."""
    slots, n = np.array([r.slot for r in records], np.int64), len(records)
    had = [before.get(r.slot) for r in records]
    unstamped = [i for i, r in enumerate(records) if r.ts is None]
    lane = np.zeros(n, np.uint64)
    stamps = stamps_of([r.ts for r in records], None, set(unstamped))[0]
    own = Records(
        np.arange(n),
        lane,
        None,
        stamps,
        None,
        np.arange(n),
        DecodedColumns(n, lane, None, None, {}, {}, {}, {}),
        [],
        unstamped,
    )
    stored = StoredVersions(
        np.array([h is not None and h.doc is not None for h in had], bool),
        np.array([h is not None and h.doc is None for h in had], bool),
        stamps_of([0 if h is None else h.ts for h in had], None, set())[0],
    )
    own.settle(slots, stored)
    assert own.stamps is not None
    return own.stamps, [False] * n if own.void is None else own.void.tolist()


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
