"""Walk the pages of a store before LMDB follows them, and name damage by view or table."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain

from penstock.cache import (
    COPY,
    FREE,
    MAIN,
    META,
    DatabaseLabel,
    Digest,
    PenstockError,
    Reader,
    Store,
    StoreDamaged,
    error_text,
    open_lmdb,
    scrub_pages,
)
from penstock.core.damage_names import database_labels
from penstock.core.metadata.catalog import catalog_of, catalog_row
from penstock.core.metadata.store_layout import read_layout
from penstock.core.upkeep.scrub_result import keep_result, read_result
from penstock.views import Progress

__all__ = ["PageReport", "damaged_pages_at", "must_be_sound", "walk"]

_log = logging.getLogger("penstock.engine")
_UNREADABLE = {MAIN, FREE, META}  # if one of these is damaged, the catalog is not read
_FIX = "run `penstock check --fix`, or engine.check(fix=True)"
_MADE_AGAIN = ("view", "tree", "behind", "index", "feed", "quarantine")
"""The kinds of databases whose keys a check can restore: their rows follow from documents, or are dispensable."""


@dataclass(slots=True)
class PageReport:
    """The result of a walk. After damage in `pages` nothing else of the store may be read.

    Keys of the databases in `lost` were lost or added. The databases in `uncounted` are counted for the first time.
    """

    pages: list[StoreDamaged] = field(default_factory=list)
    lost: dict[str, Digest] = field(default_factory=dict)
    uncounted: dict[str, Digest] = field(default_factory=dict)
    places: dict[str, DatabaseLabel] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def damaged(self) -> list[str]:
        """Return the damage of pages, in words."""
        return list(map(str, self.pages))

    def fixable(self) -> list[str]:
        """Return the databases whose lost or added keys a check repairs."""
        return [db for db in self.lost if _is_fixable(db)]

    def words(self, db: str) -> str:
        """Return the purpose of a database."""
        return self.places[db].words if db in self.places else db

    def message(self, db: str) -> str:
        """Describe damage of a database's keys."""
        return str(self._damage_of(db))

    def worst(self) -> StoreDamaged | None:
        """Return damage on which further writes would build: of pages, or of keys that no check repairs."""
        keys = (self._damage_of(db) for db in self.lost if not _is_fixable(db))
        return next(chain(self.pages, keys), None)

    def keep(self, folder: str) -> None:
        """Keep the result durably in the folder of the store; a user who may only read keeps none."""
        damaged = (*self.damaged, *map(self.message, self.lost))
        try:
            keep_result(folder, self.seconds, damaged, self.worst() is not None)
        except (OSError, PenstockError) as error:
            _log.warning(
                "`penstock status` does not show the scrub of %s that ended now: %s", folder, error_text(error)
            )

    def _damage_of(self, db: str) -> StoreDamaged:
        step = _FIX if _is_fixable(db) else COPY
        return StoreDamaged(f"{self.words(db)}, rows were lost or added", None, step)


def _is_fixable(db: str) -> bool:
    return db.partition(":")[0] in _MADE_AGAIN


def damaged_pages_at(path: str, progress: Progress | None = None) -> list[str]:
    """Return the damaged pages of the store at a path, which other processes may have open for writing."""
    layout = read_layout(path)
    out: list[str] = []
    for folder in [path] if layout is None else layout.folders(path):
        store = open_lmdb(folder, readonly=True)
        try:
            walked = walk(store.read, progress)
        finally:
            store.close()
        walked.keep(folder)
        out += walked.damaged
    return out


def must_be_sound(store: Store, folder: str) -> None:
    """Walk a store whose last scrub found damage that no check repairs. Raise StoreDamaged if it is still there.

    So a restart doesn't build on damage, and LMDB does not follow a page that is known to be damaged.
    """
    known = read_result(folder)
    if known is None or not known.stops:
        return
    walked = walk(store.read)
    walked.keep(folder)
    worst = walked.worst()
    if worst is not None:
        raise worst


def walk(take: Callable[[], AbstractContextManager[Reader]], progress: Progress | None = None) -> PageReport:
    """Walk all pages of a store, and name the damage; `take` opens a snapshot.

    `progress` receives the pages passed and their total. It may wait, and its exception ends the walk.
    """
    began = time.monotonic()
    try:
        scrub = scrub_pages(take, progress)
    except StoreDamaged as damage:  # in a meta page, or in the digests
        return PageReport([damage], seconds=time.monotonic() - began)
    if scrub is None:
        return PageReport()
    found, catalog = scrub.found, None
    if not any(damage.db in _UNREADABLE for damage in found):
        with take() as reader:
            row = catalog_row(reader)
            try:
                catalog = None if row is None else catalog_of(row, "")
            except StoreDamaged:
                catalog = None
    places = database_labels(catalog)
    pages = [damage.of(places[damage.db].words) if damage.db in places else damage for damage in found]
    return PageReport(list(pages), scrub.lost, scrub.uncounted, places, time.monotonic() - began)
