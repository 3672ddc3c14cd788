"""All pages of a data file walked, and each held against the counts that lead to it.

LMDB checks nothing of a page that it follows, so this comes before LMDB reads one. Memory is a byte for each page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from penstock.cache.lmdb_page import FREE, Page, PageDamaged, Pages, TooOld, Tree
from penstock.cache.lmdb_snapshot import LmdbReader
from penstock.cache.store import Reader

__all__ = ["Scrub", "scrub_pages"]


def scrub_pages(
    take: Callable[[], AbstractContextManager[Reader]], progress: Callable[[int, int], None] | None = None
) -> list[PageDamaged]:
    """Walk all pages of a snapshot that is taken here; the first damage of each database. A store in memory has none.

    `progress` is told how many pages are passed, of how many.
    """
    while True:
        with take() as reader:
            if not isinstance(reader, LmdbReader):
                return []
            try:
                pages = reader.pages()
            except TooOld:
                continue
            with pages:
                scrub = Scrub(pages)
                for passed in scrub.run():
                    if progress is not None:
                        progress(passed, scrub.total)
            return scrub.found


class Scrub:
    """One walk over the pages of a file, as of one transaction; `found` has the first damage of each database."""

    def __init__(self, pages: Pages) -> None:
        self.found: list[PageDamaged] = []
        self._pages = pages
        self._seen = pages.new_marks()

    @property
    def total(self) -> int:
        """The pages of the file."""
        return len(self._seen)

    def run(self) -> Iterator[int]:
        """Walk all of it; gives, as it goes, how many pages it has passed."""
        trees: dict[str, Tree] = {}
        try:
            trees = self._pages.databases(self._seen)
        except PageDamaged as damage:
            self.found.append(damage)
        for name, tree in trees.items():
            yield from self._passed(self._pages.leaves(name, tree, self._seen))
        yield from self._passed(self._pages.free(self._seen))
        lost = self._seen.count(0)
        if lost and not self.found:
            first = self._seen.index(0)
            self.found.append(PageDamaged(FREE, f"page {first} is neither free nor of a database; {lost} such pages"))

    def _passed(self, leaves: Iterator[Page]) -> Iterator[int]:
        try:
            for _ in leaves:
                yield self._pages.passed
        except PageDamaged as damage:
            self.found.append(damage)
