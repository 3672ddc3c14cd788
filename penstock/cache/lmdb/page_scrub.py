"""Walk all pages of a data file, and compare them with the counters and digests that cover them.

LMDB checks no page that it follows, so a scrub runs before LMDB reads one. It takes one byte of memory per page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress

from penstock.cache.lmdb.lmdb_databases import digests_in
from penstock.cache.lmdb.lmdb_page import FREE, Page, PageDamaged, Pages, TooOld, Tree
from penstock.cache.lmdb.read_snapshot import LmdbReader
from penstock.cache.store.key_digests import DIGESTS, Digest, Digests, digest_of
from penstock.cache.store.protocol import META, Reader

__all__ = ["Scrub", "scrub_pages", "uncounted_in"]


def scrub_pages(
    take: Callable[[], AbstractContextManager[Reader]], progress: Callable[[int, int], None] | None = None
) -> Scrub | None:
    """Take a snapshot and walk all of its pages. Return None for a store in memory, which has no pages.

    `progress` gets the numbers of passed pages and of all pages. If the map has to grow, which waits for all snapshots,
    the walk starts again.
    """
    while True:
        with suppress(TooOld), take() as reader:
            if not isinstance(reader, LmdbReader):
                return None
            with reader.pages() as pages:
                scrub = Scrub(pages)
                for passed in scrub.run():
                    if progress is not None:
                        progress(passed, scrub.total)
                    if reader.awaited:
                        break
                else:
                    return scrub


def uncounted_in(reader: Reader) -> int:
    """Return how many databases of a snapshot have rows but no whole digest. A store in memory has 0."""
    if not isinstance(reader, LmdbReader):
        return 0
    row = reader.get_many(META, [DIGESTS])[0]
    digests = {} if row is None else Digests.of_row(row).by_db
    return sum(name != META and not digests.get(name, Digest(whole=False)).whole for name in reader.names())


class Scrub:
    """One walk over the pages of a file as of one transaction. `found` has the first damage of each database.

    `lost` has the databases whose keys differ from their digest, `uncounted` those without a whole digest. The values
    are the corrections: a digest plus its correction matches the keys that exist.
    """

    def __init__(self, pages: Pages) -> None:
        self.found: list[PageDamaged] = []
        self.lost: dict[str, Digest] = {}
        self.uncounted: dict[str, Digest] = {}
        self._pages = pages
        self._seen = pages.new_marks()

    @property
    def total(self) -> int:
        """Return the number of pages in the file."""
        return len(self._seen)

    def run(self) -> Iterator[int]:
        """Walk all pages. Yield the number of passed pages from time to time."""
        trees: dict[str, Tree] = {}
        digests: Digests | None = None
        try:
            self._pages.check_newest()
            trees = self._pages.databases(self._seen)
            digests = digests_in(self._pages, trees, self._seen)
        except PageDamaged as damage:
            self.found.append(damage)
        for name, tree in trees.items():
            if name == META:
                continue
            counted, sound = [Digest()], len(self.found)
            yield from self._passed(self._pages.leaves(name, tree, self._seen), counted)
            written = None if digests is None else digests.by_db.get(name, Digest(whole=not tree.entries))
            if written is not None and len(self.found) == sound and not (written.whole and written.like(counted[0])):
                (self.lost if written.whole else self.uncounted)[name] = counted[0].minus(written)
        yield from self._passed(self._pages.free(self._seen), [Digest()])
        lost = self._seen.count(0)
        if lost and not self.found:
            first = self._seen.index(0)
            self.found.append(PageDamaged(FREE, f"page {first} is neither free nor of a database; {lost} such pages"))

    def _passed(self, leaves: Iterator[Page], counted: list[Digest]) -> Iterator[int]:
        """Walk these leaves, and add their keys to `counted`."""
        try:
            for page in leaves:
                counted[0] = counted[0].plus(digest_of(page.keys))
                yield self._pages.passed
        except PageDamaged as damage:
            self.found.append(damage)
