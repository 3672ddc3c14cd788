"""Repair views: rebuild each beside the stored one, compare, and replace the groups that differ.

If rows of a view change, the views on it follow: the groups of the old and the new rows are repaired too. The `Site`
decides how a view is compared and which writes may run meanwhile. Invariants:

- one repair runs at a time;
- every reported repair is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from typing import Any

from penstock.cache import PenstockError, StoreDamaged, decode_key, encode_key, is_long
from penstock.core import is_reindexed
from penstock.mapreduce import FunctionMapper, ViewNode, emissions_db, held_db
from penstock.recovery.repair.emission_repair import RepairedEmission, damaged_rows, remembered_in
from penstock.recovery.repair.fresh_map import FreshMap
from penstock.recovery.repair.group_replacement import ReplacedGroup
from penstock.recovery.repair.remembered_emissions import gone_of, remembered_emission, results_of_groups
from penstock.recovery.repair.repair_errors import NotComplete, RebuildIncomplete, Unreadable
from penstock.recovery.repair.repair_site import Site
from penstock.recovery.repair.repair_steps import STEP
from penstock.recovery.repair_report import Mended, Repaired
from penstock.views import ABSENT, Join, Progress, Row, SideView, View, all_joins, shown_join, side_views

_BLOCK = 1 << 12  # rows that are in memory at once
_MANY = 10_000  # changed rows above which a chained view is repaired as a whole
_ATTEMPTS = 3
_SHOWN = (Mended.RESULT, Mended.UNREADABLE)  # faults that change the rows that readers and chained views see

Found = dict[tuple[str, bytes], Repaired]


class Restatement:
    """Repairs of one store."""

    def __init__(self, site: Site, progress: Progress | None, fix: bool = True) -> None:
        self.site = site
        self.fix = fix  # False: report the repairs without writing them
        self.left: list[str] = []  # views that could not be compared
        self.anew: list[str] = []  # damaged rows of remembered emissions that were replaced
        self._wrong_rows: set[str] = set()  # views whose results are wrong and stay so
        self._progress = progress
        self._found: Found = {}
        self._repaired_emissions: dict[
            str, list[RepairedEmission]
        ] = {}  # rows that were replaced, of views still to be repaired

    def found(self) -> list[Repaired]:
        """Return the repairs, one for each group."""
        return list(self._found.values())

    def complete(self, name: str) -> None:
        """Raise NotComplete if a view is being built, because it can't be repaired then."""
        if self.site.views[name].building is not None:
            raise NotComplete(name)

    def view(self, name: str, asked: Sequence[bytes] | None) -> None:
        """Repair a view, or these groups, and then the views on it. Skip a view that is being built."""
        if self.site.views[name].building is not None:
            return
        if not self.fix and self._on_wrong_rows(name):
            return
        distinct = None if asked is None else sorted(set(asked))
        if distinct is not None and not distinct:
            return
        for _ in range(_ATTEMPTS):
            try:
                if distinct is None and self.fix:
                    self.repair_emissions(name)
                compared = self.site.compared(name, distinct, self.fix, self._progress)
                break
            except StoreDamaged as damage:
                if not self.fix or distinct is None or damage.where not in remembered_in(self.site.views[name]):
                    raise
                distinct = None  # the damaged row no longer names its groups
            except Unreadable as damage:
                if not self.fix:
                    self._wrong_rows.add(self.site.views[name].view.source.name)
                    self._on_wrong_rows(name)
                    return
                source = self.site.views[name].view.source.name
                self.view(source, None if any(map(is_long, damage.keys)) else damage.keys)
            except RebuildIncomplete:
                self._read_anew()
        else:
            raise PenstockError(
                f"view {name!r} could not be compared: writing failed meanwhile, {_ATTEMPTS} times; mend what keeps "
                "batches from being written, then run this again"
            )
        replaced = compared.replaced
        self.add_repairs(compared.repaired)
        self._mark_repaired(name)
        if not self.fix:
            self._wrong_rows |= {one.repaired.view for one in replaced if one.repaired.what in _SHOWN}
            return
        if distinct is None:
            self._forget_gone(name)
        moved = [one for one in replaced if one.repaired.what in _SHOWN]
        if moved:
            for child in [node.name for node in self.site.views.values() if node.view.source.name == name]:
                self._follow(child, moved)
            self._joins_on(name)

    def join(self, name: str) -> None:
        """Repair the indexes of a join's sides, then the views on it, and the joins that read its rows."""
        for side in (side for node in all_joins(self.site.app) if node.name == name for side in side_views(node)):
            wrong = self._differing(name, side)
            if wrong and self.fix:
                self.anew.append(f"join {shown_join(name)!r}, side {side.side!r}, {wrong} entries of its index")
        for view in [view.name for view in self.site.views.values() if view.view.source.name == name]:
            self.view(view, None)
        self._joins_on(name)

    def _joins_on(self, source: str) -> None:
        """Repair the joins of which this view or join is a side."""
        for join in all_joins(self.site.app):
            if source in {side.source.name for side in side_views(join)}:
                self.join(join.name)

    def _differing(self, join: str, side: SideView) -> int:
        """Repair the entries of a side. Return the number of wrong ones. Repair damaged rows of its view first."""
        try:
            return self.site.compare_side(join, side.side, self.fix)
        except StoreDamaged:
            if not (self.fix and isinstance(side.source, View)):
                raise
        self.view(side.source.name, None)
        return self.site.compare_side(join, side.side, self.fix)

    def joins_of(self, table: str) -> None:
        """Repair the joins that read a table, as wholes: nothing names the rows that one document may have left."""
        for join in all_joins(self.site.app):
            below = [side.source for side in side_views(join) if isinstance(side.source, Join)]
            if table in {own.name for own in join.tables} and not _reads_any(below, table):
                self.join(join.name)

    def _on_wrong_rows(self, name: str) -> bool:
        """Return True if the parent rows of a view are wrong: they must be repaired before it can be compared."""
        source = self.site.views[name].view.source.name
        if source not in self._wrong_rows:
            return False
        self._wrong_rows.add(name)
        self.left.append(
            f"view {name!r} is on rows of view {source!r} that are wrong, and compared once these are repaired"
        )
        return True

    def add_repairs(self, repaired: Sequence[Repaired]) -> None:
        """Add repairs to the report."""
        for one in repaired:
            key = one.view, b"" if one.group is ABSENT else encode_key(one.group)
            self._found[key] = one.after(self._found.get(key))

    def step(self, place: int, do: str, *what: Any) -> Any:
        """Run a step at one place, and report its changes as repairs."""
        out, changed = self.site.step(place, do, *what)
        self.add_repairs(changed)
        return out

    def repair_emissions(self, name: str) -> None:
        """Replace damaged rows of a view's remembered emissions; the caller repairs the view afterwards."""
        if self.site.views[name].building is not None:
            return
        with self.site.snapshot() as snap:
            wrong = [i for i, part in enumerate(snap.parts) if any(damaged_rows(part.reader(), self.site.views[name]))]
        for place in wrong:
            for where, groups in self.step(place, "relearn", name):
                self._repaired_emissions.setdefault(name, []).append(RepairedEmission(where, groups))
        node = self.site.views[name]
        if isinstance(node.mapper, FunctionMapper) and not node.of_rows:
            for place in self.reindexed(node.view.source.name):
                self._repair_missing_emissions(name, place)

    def _repair_missing_emissions(self, name: str, place: int) -> None:
        """Map the documents that a function view missed while the index had lost them."""
        start: int | None = 0
        while start is not None:
            start, repairs = self.step(place, "repair_missing_emissions", name, start)
            self._repaired_emissions.setdefault(name, []).extend(
                RepairedEmission(where, groups) for where, groups in repairs
            )

    def reindexed(self, table: str) -> list[int]:
        """Return the places where a table's index was rebuilt and views may still lack documents."""
        with self.site.snapshot() as snap:
            number = snap.schema.tables[table].number
            return [place for place, part in enumerate(snap.parts) if is_reindexed(part.reader(), number)]

    def _mark_repaired(self, name: str) -> None:
        repairs = self._repaired_emissions.pop(name, [])
        self.anew += [one.where for one in repairs]
        if any(not one.groups for one in repairs):
            self.add_repairs([Repaired(name, ABSENT, ABSENT, ABSENT, Mended.REMEMBERED)])
        groups = sorted({group for one in repairs for group in one.groups})
        if groups:
            with self.site.snapshot() as snap:
                results = results_of_groups(snap.reader(), self.site.views[name], groups)
            self.add_repairs([Repaired(name, decode_key(g), r, r, Mended.REMEMBERED) for g, r in results.items()])

    def _read_anew(self) -> None:
        for place in range(self.site.places):
            self.step(place, "read_anew")

    # -- the views on it

    def _follow(self, name: str, moved: Sequence[ReplacedGroup]) -> None:
        """Repair a chained view after rows of its parent view changed."""
        node = self.site.views[name]
        mapping = FreshMap(node.view)
        asked: set[bytes] | None = None
        if len(moved) <= _MANY:
            asked = mapping.groups(
                [_row(one, old) for one in moved for old in (True, False) if _row(one, old) is not None]
            )
            asked = self._with_remembered(node, moved, asked)
        self.view(name, None if asked is None else sorted(asked))
        again = moved if isinstance(node.mapper, FunctionMapper) else self._held(node, moved)
        for place in sorted({one.place for one in again}):
            rows = [(one.key, encode_key(one.repaired.group)) for one in again if one.place == place]
            for a in range(0, len(rows), STEP):
                self.step(place, "refresh_rows", name, rows[a : a + STEP])

    def _held(self, node: ViewNode, moved: Sequence[ReplacedGroup]) -> list[ReplacedGroup]:
        """Return the changed rows that a view holds."""
        with self.site.snapshot() as snap:
            held: set[tuple[int, bytes]] = set()
            for place, part in enumerate(snap.parts):
                keys = [one.key for one in moved if one.place == place]
                rows = part.reader().get_many(held_db(node.number), keys) if keys else []
                held.update((place, key) for key, row in zip(keys, rows, strict=True) if row is not None)
            return [one for one in moved if (one.place, one.key) in held]

    def _with_remembered(self, node: ViewNode, moved: Sequence[ReplacedGroup], asked: set[bytes]) -> set[bytes] | None:
        """Add the groups of the remembered emissions of changed rows. Return None if these are damaged."""
        try:
            with self.site.snapshot() as snap:
                readers = [part.reader() for part in snap.parts]
                emissions = (remembered_emission(readers[one.place], node, one.key) or () for one in moved)
                return asked.union(group for own in emissions for group, _ in own)
        except StoreDamaged:
            return None

    def _forget_gone(self, name: str) -> None:
        """Forget the remembered emissions and holds of documents or parent rows that are gone."""
        node = self.site.views[name]
        dbs = [held_db(node.number)]
        if node.of_rows and isinstance(node.mapper, FunctionMapper):
            dbs.append(emissions_db(node.number))
        for place, db in product(range(self.site.places), dbs):
            start: bytes | None = b""
            while start is not None:
                with self.site.snapshot() as snap:
                    part = snap.parts[place]
                    block = list(islice(part.reader().scan(db, start), _BLOCK))
                    gone = gone_of(part, node, db, block)
                start = block[-1][0] + b"\0" if len(block) == _BLOCK else None
                for a in range(0, len(gone), STEP):
                    self.step(place, "forget", name, db, gone[a : a + STEP])


def _reads_any(joins: Sequence[Join], table: str) -> bool:
    """Return True if a table is below one of these joins."""
    return any(table in {own.name for own in join.tables} for join in joins)


def _row(one: ReplacedGroup, old: bool) -> Row | None:
    result = one.repaired.old if old else one.repaired.new
    return None if result is ABSENT else Row(one.repaired.group, result)
