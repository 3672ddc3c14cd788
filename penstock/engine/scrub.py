"""The pages of a store walked before LMDB follows them, and their damage by view or table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from penstock.cache import COPY, FREE, MAIN, META, Digest, Place, Reader, StoreDamaged, open_lmdb, scrub_pages
from penstock.engine.catalog import catalog_of, catalog_row
from penstock.engine.layout import read_layout
from penstock.engine.naming import places_of
from penstock.views import Progress

__all__ = ["Walked", "damaged_pages_at", "walk"]

_UNREADABLE = {MAIN, FREE, META}  # with one of these damaged, the catalog is not read
_FIX = "run `penstock check --fix`, or engine.check(fix=True)"
_MADE_AGAIN = ("view", "tree", "behind", "index", "feed", "quarantine")
"""The kinds of databases whose keys a check sets right: their rows follow from documents, or others do without them."""


@dataclass(slots=True)
class Walked:
    """The result of a walk: `damaged` says it in words, where nothing else of the store may be read.

    Of the databases in `lost`, keys were lost or added; those in `uncounted` are counted for the first time.
    """

    damaged: list[str] = field(default_factory=list)
    lost: dict[str, Digest] = field(default_factory=dict)
    uncounted: dict[str, Digest] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def fixable(self) -> list[str]:
        """The databases with other keys that a check sets right."""
        return [db for db in self.lost if db.partition(":")[0] in _MADE_AGAIN]

    def words(self, db: str) -> str:
        """What a database is for."""
        return self.places[db].words if db in self.places else db

    def said(self, db: str) -> str:
        """Damage of the keys of a database, in words."""
        step = _FIX if db.partition(":")[0] in _MADE_AGAIN else COPY
        return str(StoreDamaged(f"{self.words(db)}, rows were lost or added", None, step))


def damaged_pages_at(path: str, progress: Progress | None = None) -> list[str]:
    """The damage of pages of the store at a path, which others may have open and write."""
    layout = read_layout(path)
    out: list[str] = []
    for folder in [path] if layout is None else layout.folders(path):
        store = open_lmdb(folder, readonly=True)
        try:
            out += walk(store.read, progress).damaged
        finally:
            store.close()
    return out


def walk(take: Callable[[], AbstractContextManager[Reader]], progress: Progress | None = None) -> Walked:
    """Walk all pages of the store whose snapshots this takes; the damage by name."""
    scrub = scrub_pages(take, progress)
    if scrub is None:
        return Walked()
    found, catalog = scrub.found, None
    if not any(damage.db in _UNREADABLE for damage in found):
        with take() as reader:
            row = catalog_row(reader)
            try:
                catalog = None if row is None else catalog_of(row, "")
            except StoreDamaged:
                catalog = None
    places = places_of(catalog)
    damaged = [str(damage.of(places[damage.db].words) if damage.db in places else damage) for damage in found]
    return Walked(damaged, scrub.lost, scrub.uncounted, places)
