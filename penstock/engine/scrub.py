"""The pages of a store walked before LMDB follows them, and their damage by view or table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from penstock.cache import FREE, MAIN, META, Reader, StoreDamaged, open_lmdb, scrub_pages
from penstock.engine.catalog import catalog_of, catalog_row
from penstock.engine.layout import read_layout
from penstock.engine.naming import places_of
from penstock.views import Progress

__all__ = ["damaged_pages", "damaged_pages_at"]

_UNREADABLE = {MAIN, FREE, META}  # with one of these damaged, the catalog is not read


def damaged_pages_at(path: str, progress: Progress | None = None) -> list[str]:
    """The damage of pages of the store at a path, which others may have open and write."""
    layout = read_layout(path)
    out: list[str] = []
    for folder in [path] if layout is None else layout.folders(path):
        store = open_lmdb(folder, readonly=True)
        try:
            out += damaged_pages(store.read, progress)
        finally:
            store.close()
    return out


def damaged_pages(take: Callable[[], AbstractContextManager[Reader]], progress: Progress | None = None) -> list[str]:
    """Walk all pages of the store whose snapshots this takes; the damage by name."""
    found = scrub_pages(take, progress)
    if not found:
        return []
    catalog = None
    if not any(damage.db in _UNREADABLE for damage in found):
        with take() as reader:
            row = catalog_row(reader)
            try:
                catalog = None if row is None else catalog_of(row, "")
            except StoreDamaged:
                catalog = None
    places = places_of(catalog)
    return [str(damage.of(places[damage.db].words) if damage.db in places else damage) for damage in found]
