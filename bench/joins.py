"""The side index and the change of a join alone: CPU of a batch without decoding, documents, and views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.joined_puts import joined_puts
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure
from penstock.cache import open_lmdb
from penstock.join import Conditions, Entries, How, JoinChange, SideChange, SideIndex, changed_entries
from penstock.mapreduce import Column, SourceKeys, Writes

COUNTRIES, BATCH, LIMIT = 200, 10_000, 10_000_000
NEW, UPDATE, PAIR, BYTES = 0.7, 1.5, 1.0, 2.0
TRIAL_NEW, TRIAL_UPDATE = 0.54, 1.05  # pages of 16 condition values, in the trials behind the design
COLUMNS = 24  # bytes of a condition value, a key and a field
_Ints = NDArray[np.int64]


def joins(plan: Plan) -> Iterator[Figure]:
    """Measure orders in a side index, joined with customers by key, and summed by the customer's country."""
    trial = _Trial(fresh(plan.at("joins")), plan.docs, max(plan.docs // 10, 10))
    size = f"{plan.docs:,} orders, {trial.customers:,} customers, batches of {min(BATCH, plan.docs):,}"
    for case, reach, beside in (("new order", NEW, TRIAL_NEW), ("update", UPDATE, TRIAL_UPDATE)):
        cost = trial.orders(update=case == "update")
        bound, met = f"≤ {reach} µs of CPU", plan.met(cost <= reach)
        limits: dict[str, float | None] = {"trial of the design": beside}
        yield Figure("joins", f"{case}, {size}", cost, "µs of CPU", limits, None, bound, None, met, trial.stages)
    pair = trial.moves(min(BATCH, trial.customers))
    bound, met = f"≤ {PAIR} µs of CPU", plan.met(pair <= PAIR)
    yield Figure("joins", "customers that move, each of their orders", pair, "µs of CPU", {}, None, bound, None, met)
    stored = trial.bytes_of_entry()
    bound, met = f"≤ {BYTES:.0f} × the bytes of its columns", plan.met(stored <= BYTES * COLUMNS)
    yield Figure("joins", "an entry on disk", stored, "bytes", {}, None, bound, stored / COLUMNS, met)
    trial.close()
    yield from joined_puts(plan)


class _Customers:
    """Customers by key: a side whose condition value is its whole key."""

    width = 1

    def __init__(self, country: _Ints, kept: bool) -> None:
        self._country, self._kept = country, kept

    def blocks(self, wanted: Conditions) -> Iterator[tuple[_Ints, Entries]]:
        """Yield the customers with these keys, unless the batch changes them."""
        if self._kept:
            country = Column(self._country[wanted.keys.lane])
            yield np.arange(len(wanted)), Entries.of(wanted.keys, wanted.keys, [country])

    def counts(self, wanted: Conditions) -> _Ints:
        """Count one customer for each key."""
        return np.full(len(wanted), int(self._kept), np.int64)

    most = counts


class _Trial:
    """One side index with its orders, and the totals by country."""

    def __init__(self, folder: Path, orders: int, customers: int) -> None:
        self.n, self.customers, self.stages = orders, customers, dict[str, float]()
        self._folder, self._store = folder, open_lmdb(folder)
        self._index = SideIndex(1, 1)
        self._rng = np.random.default_rng(1)
        self._country = self._rng.zipf(1.3, customers) % COUNTRIES
        self._customer, self._amount = np.zeros(orders, np.int64), np.zeros(orders, np.int64)
        self._totals = np.zeros(COUNTRIES, np.int64)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.stages[name] = self.stages.get(name, 0.0) + time.process_time() - began

    def _per(self, n: int) -> float:
        self.stages = {name: round(1e6 * seconds / n, 3) for name, seconds in self.stages.items()}
        return sum(self.stages.values())

    def orders(self, update: bool) -> float:
        """Put new orders, or update a third as many. Half of the updates move to another customer."""
        self.stages, batch = {}, min(BATCH, self.n)
        rounds = max(1, self.n // batch // (3 if update else 1))
        none = np.zeros(0, np.int64)
        for i in range(rounds):
            amount, customer = self._rng.integers(1, 1000, batch), self._rng.integers(0, self.customers, batch)
            if update:
                key = np.sort(self._rng.choice(self.n, batch, replace=False))
                old = (self._customer[key], key, self._amount[key])
                customer = np.where(self._rng.random(batch) < 0.5, old[0], customer)
            else:
                key, old = np.arange(i * batch, (i + 1) * batch), (none, none, none)
            self._put(old, (customer, key, amount))
            self._customer[key], self._amount[key] = customer, amount
        self._compare()
        return self._per(rounds * batch)

    def _put(self, old: tuple[_Ints, _Ints, _Ints], new: tuple[_Ints, _Ints, _Ints]) -> None:
        none, writes = Entries.none(1), Writes()
        with self._store.write() as writer:
            with self._stage("entries"):
                minus, plus = changed_entries(_entries(*old), _entries(*new))
            with self._stage("rows"):
                kept = self._index.kept(writer, Entries.join([minus, plus]))
                customers = SideChange(none, none, _Customers(self._country, kept=True))
                self._fold(JoinChange(SideChange(minus, plus, kept), customers, How.INNER, LIMIT))
            with self._stage("log"):
                self._index.stage(writer, minus, plus, writes)
                writes.write(writer)
            began = time.process_time()
        self.stages["commit"] = self.stages.get("commit", 0.0) + time.process_time() - began
        with self._stage("runs"):
            writes.committed()
        with self._stage("fold"):
            if steps := self._index.fold_steps():
                with self._store.write() as writer:
                    done = self._index.fold_step(writer, steps)
                done()

    def _fold(self, change: JoinChange) -> int:
        """Add the rows of a change to the totals. Return their number."""
        n = 0
        for rows in change.rows():
            n += rows.i.size
            country, amount = rows.right.column(0).lane[rows.j], rows.left.column(0).lane[rows.i]
            totals = np.bincount(country, amount, COUNTRIES).astype(np.int64)
            self._totals += totals if rows.plus else -totals
        return n

    def moves(self, each: int) -> float:
        """Move customers to other countries, `each` in a batch. Return the CPU time for each of their orders."""
        self.stages, none, rows = {}, Entries.none(1), 0
        for _ in range(3):
            key = np.sort(self._rng.choice(self.customers, each, replace=False))
            new = self._rng.integers(0, COUNTRIES, each)
            with self._store.read() as reader, self._stage("rows"):
                minus, plus = (_entries(key, key, country) for country in (self._country[key], new))
                customers = SideChange(minus, plus, _Customers(self._country, kept=False))
                orders = SideChange(none, none, self._index.kept(reader, none))
                rows += self._fold(JoinChange(orders, customers, How.INNER, LIMIT))
            self._country[key] = new
        self._compare()
        return self._per(max(rows // 2, 1))

    def _compare(self) -> None:
        wanted = np.bincount(self._country[self._customer], self._amount, COUNTRIES)
        assert (self._totals == wanted).all(), "the totals are not those of a recomputation"

    def bytes_of_entry(self) -> float:
        """Return the bytes on disk of one entry, once the log is folded."""
        with self._store.write() as writer:
            done = self._index.fold_step(writer, 1 << 20)
        done()
        return self._store.info()["used"] / self.n

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _entries(value: _Ints, key: _Ints, amount: Any) -> Entries:
    return Entries.of(SourceKeys(value, None), SourceKeys(key, None), [Column(amount)])
