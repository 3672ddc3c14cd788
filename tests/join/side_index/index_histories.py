"""Random histories of a side index beside a dict: stores, folds at any point, crashes, reopening, old snapshots."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from penstock.cache import MemoryStore, Reader, Store
from penstock.join import Conditions, Entries, KeptEntries, SideIndex, check_side, side_digest
from penstock.mapreduce import Writes
from tests.join.join_histories import FIELDS, VALUES, Document, ListedSide, entries_of

Model = dict[tuple[bytes, bytes], Any]  # encoded condition value and key → field
SMALL = {
    "page_fold.MOST": 8,
    "page_fold.LEAST_PAGE": 3,
    "page_fold.PAGES": 3,
    "side_index.PAGES": 3,
    "side_index._STEP": 5,
}


def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages and steps so small that a few entries need many."""
    for name, size in SMALL.items():
        monkeypatch.setattr(f"penstock.join.{name}", size)
    monkeypatch.setattr("penstock.join.side_index.MOST", SMALL["page_fold.MOST"])
    monkeypatch.setattr("penstock.join.side_index.LEAST_LOG", 12)
    monkeypatch.setattr("penstock.join.side_index.BLOCK", 7)


class Crash(Exception):
    """The end of a process before its commit."""


def stage(store: Store, index: SideIndex, minus: Entries, plus: Entries) -> None:
    """Store the change of a transaction."""
    writes = Writes()
    with store.write() as writer:
        index.stage(writer, minus, plus, writes)
        writes.write(writer)
    writes.committed()


def fold_once(store: Store, index: SideIndex, minus: Entries, plus: Entries) -> None:
    """Store the change of a transaction, and fold the whole log."""
    stage(store, index, minus, plus)
    with store.write() as writer:
        done = index.fold_step(writer, 1 << 20)
    done()


class IndexedSide(ListedSide):
    """One side of a join whose kept entries come from a side index."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._store, self._index = MemoryStore(), SideIndex(1, 1)
        self._reader: Reader | None = None

    def kept(self, minus: Entries, plus: Entries, changed: set[Any]) -> KeptEntries:
        """Return the entries of the documents that do not change."""
        self._reader = self._store.read()
        return self._index.kept(self._reader, Entries.join([minus, plus]))

    def apply(self, minus: Entries, plus: Entries, new: dict[Any, Document | None]) -> None:
        """Apply the change of a transaction."""
        assert self._reader is not None
        self._reader.close()
        super().apply(minus, plus, new)
        stage(self._store, self._index, minus, plus)
        if self._rng.random() < 0.5:
            with self._store.write() as writer:
                done = self._index.fold_step(writer)
            done()
        if self._rng.random() < 0.2:
            self._index = SideIndex(1, 1)


class IndexHistory:
    """A side index over a store, the documents that it must have, and a dict of its entries."""

    def __init__(self, rng: random.Random, store: Store | None = None) -> None:
        self.rng = rng
        self.store = MemoryStore() if store is None else store
        self.index = SideIndex(3, 1)
        self.documents: dict[Any, tuple[Any, Any]] = {}

    def model(self) -> Model:
        """Return the entries that the index must have."""
        listed = entries_of(self.documents).listed() if self.documents else []
        return {(value, key): fields[0] for value, key, fields in listed if value is not None}

    def put(self, new: dict[Any, tuple[Any, Any] | None], crash: bool = False) -> None:
        """Store changed documents in one transaction; with `crash` it does not commit."""
        minus = entries_of({key: self.documents[key] for key in new if key in self.documents})
        plus = entries_of({key: doc for key, doc in new.items() if doc is not None})
        writes = Writes()
        with suppress(Crash), self.store.write() as writer:
            self.index.stage(writer, minus, plus, writes)
            writes.write(writer)
            if crash:
                raise Crash
        if crash:
            self.index.forget()
            return
        writes.committed()
        for key, doc in new.items():
            self.documents.pop(key, None)
            if doc is not None:
                self.documents[key] = doc

    def fold(self, steps: int, crash: bool = False) -> None:
        """Run some fold steps in one transaction; with `crash` it does not commit."""
        done = None
        with suppress(Crash), self.store.write() as writer:
            done = self.index.fold_step(writer, steps)
            if crash:
                raise Crash
        if crash or done is None:
            self.index.forget()
        else:
            done()

    def reopen(self) -> None:
        """Begin with an index that has loaded nothing."""
        self.index = SideIndex(3, 1)

    def verify(self, reader: Reader, index: SideIndex, model: Model) -> None:
        """Compare every kind of read with the dict."""
        rng = self.rng
        asked = entries_of({i: (value, 0) for i, value in enumerate(rng.sample(VALUES, rng.randrange(1, 6)))})
        wanted, [codes] = Conditions.of([asked])
        values = {value: code for (value, _, _), code in zip(asked.listed(), codes.tolist(), strict=True)}
        expected = sorted((values[v], k) for v, k in model if v in values)
        index_of = list(index.read(reader, wanted))
        found = [(c, k) for code, block in index_of for c, (_, k, _) in zip(code.tolist(), block.listed(), strict=True)]
        assert sorted(found) == expected
        counts = np.bincount([code for code, _ in expected], minlength=len(wanted))
        assert index.counts(reader, wanted).tolist() == counts.tolist()
        assert (index.most(reader, wanted) >= counts).all()
        self._verify_pairs(reader, index, model)
        whole = [entry for entries in index.all(reader) for entry in entries.listed()]
        assert {(v or b"", k): f[0] for v, k, f in whole} == model
        assert len(whole) == len(model)
        every = [int(at) for entries in index.all(reader) for at in entries.at.tolist()]
        own = random.Random(len(every))  # the steps of the history don't depend on this
        begin = own.choice([0, own.getrandbits(64), *[at + own.randrange(2) for at in every[:3]]])
        parts = [entries.at.tolist() for entries in index.all(reader, begin, own.choice([1, 3, 50]))]
        assert [at for part in parts for at in part] == [at for at in every if at >= begin]
        assert all(one[-1] < other[0] for one, other in pairwise(parts))

    def _verify_pairs(self, reader: Reader, index: SideIndex, model: Model) -> None:
        keys = self.rng.sample(sorted(self.documents, key=repr), min(4, len(self.documents)))
        pairs = entries_of({key: (self.rng.choice(VALUES[1:]), 0) for key in keys} or {1: (1, 0)})
        place, entries = index.find(reader, pairs.values(), pairs.keys())
        names = [(value, key) for value, key, _ in pairs.listed()]
        got = {names[i]: fields[0] for i, (_, _, fields) in zip(place.tolist(), entries.listed(), strict=True)}
        assert got == {name: model[name] for name in sorted(model.keys() & set(names))}
        wanted, _ = Conditions.of([pairs])
        kept = index.kept(reader, pairs)
        left = [(v, k) for _, block in kept.blocks(wanted) for v, k, _ in block.listed()]
        asked = {value for value, _ in names}
        assert sorted(left) == sorted(name for name in model if name[0] in asked and name not in names)
        assert int(kept.counts(wanted).sum()) == len(left)


def drawn_documents(rng: random.Random) -> dict[Any, tuple[Any, Any] | None]:
    """Draw changes of documents, a third of them of one condition value, which is then in several pages."""
    keys: list[Any] = [*range(150), *(f"k{i}" for i in range(20))]
    out: dict[Any, tuple[Any, Any] | None] = {}
    for key in rng.sample(keys, rng.choice((2, 10, 40))):
        value = 7 if rng.random() < 0.3 else rng.choice(VALUES)
        out[key] = None if rng.random() < 0.25 else (value, rng.choice(FIELDS))
    return out


def run_index(seed: int, store: Store | None = None, steps: int = 25) -> None:
    """Run a history. Raise AssertionError at the first fault."""
    rng = random.Random(seed)
    history = IndexHistory(rng, store)
    plain = rng.random() < 0.3  # only ints, which pages store without MessagePack
    kept: tuple[Reader, Model] | None = None
    for _ in range(steps):
        act = rng.random()
        if act < 0.55:
            new = drawn_documents(rng)
            if plain:
                ints = ((k, doc) for k, doc in new.items() if isinstance(k, int))
                new = {k: None if doc is None else (rng.randrange(9), rng.randrange(9)) for k, doc in ints}
            history.put(new, crash=rng.random() < 0.1)
        elif act < 0.8:
            history.fold(rng.randrange(1, 4), crash=rng.random() < 0.2)
        elif act < 0.9:
            history.reopen()
        elif kept is None:
            kept = history.store.read(), history.model()
        else:
            with kept[0] as reader:
                history.verify(reader, SideIndex(3, 1), kept[1])
            kept = None
        with history.store.read() as reader:
            history.verify(reader, history.index if rng.random() < 0.7 else SideIndex(3, 1), history.model())
            assert list(check_side(history.index, reader)) == []
    if kept is not None:
        kept[0].close()
    _finish(history)


def _finish(history: IndexHistory) -> None:
    """Compare the digest with that of an index that was filled at once. Then delete everything."""
    other = IndexHistory(history.rng)
    other.put(dict(history.documents))
    with history.store.read() as one, other.store.read() as two:
        assert side_digest(history.index, one) == side_digest(other.index, two)
    while history.documents:
        few = history.rng.sample(list(history.documents), min(8, len(history.documents)))
        history.put(dict.fromkeys(few))
        history.fold(2)
        with history.store.read() as reader:
            assert list(check_side(history.index, reader)) == []
    for _ in range(200):
        history.fold(2)
        with history.store.read() as reader:
            if not reader.count("sidelog:3"):
                assert list(history.index.all(reader)) == []
                assert reader.count("side:3") == 0
                return
    raise AssertionError("a fold does not end")


def run_sparse(seed: int) -> None:
    """Delete many documents, a few at a time, and fold after each transaction. So folds touch pages far apart."""
    rng = random.Random(seed)
    history = IndexHistory(rng)
    history.put({key: (rng.randrange(60), key) for key in range(200)})
    for _ in range(40):
        history.fold(100)
        new: dict[Any, Document | None] = dict.fromkeys(rng.sample(sorted(history.documents), 4))
        history.put({**new, 200 + rng.randrange(9): (rng.randrange(60), 0)})
        with history.store.read() as reader:
            assert list(check_side(history.index, reader)) == []
            assert sum(map(len, history.index.all(reader))) == len(history.documents)
