"""Keep the handles and digests of an environment's databases, which are checked when the environment is opened.

An interruption can come between a commit and the update of this memory. Another process can write while the environment
stays open here. So handles and digests belong to one transaction. After a different transaction they are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

import lmdb

from penstock.cache.errors import StoreFormat
from penstock.cache.lmdb.lmdb_errors import FORMAT, MAX_DBS
from penstock.cache.lmdb.lmdb_page import Extent, ForeignFile, PageDamaged, Pages, TooOld, Tree
from penstock.cache.store.database_watch import Watches
from penstock.cache.store.key_digests import DIGESTS, Digests, digest_of
from penstock.cache.store.protocol import META

__all__ = ["After", "Databases", "Handles", "databases_of", "digests_in"]

Handles = dict[str, "lmdb._Database"]
After = Callable[[], Digests | None]
"""A function that returns the digests after a transaction."""

_FIRST = 256  # pages of the smallest databases that are checked when a store is opened


class Databases:
    """The databases of an environment as of one transaction. `handles` has exactly the databases that exist then."""

    def __init__(self, handles: Handles) -> None:
        self.handles = handles
        self.digests: Digests | None = None
        self.watches = Watches()
        self._opened = {name.encode(): handle for name, handle in handles.items()}
        self._names: list[bytes] = []
        self._handles_of = self._digests_of = -1  # transaction numbers

    def missing(self, txn: lmdb.Transaction[memoryview], number: int) -> list[bytes]:
        """Return the names to open before a transaction. If there are none, `handles` is correct for this number."""
        if number == self._handles_of:
            return []
        names = [bytes(name) for name in txn.cursor().iternext(values=False)]
        missing = [name for name in names if name not in self._opened]
        if not missing:
            if names != self._names:
                self._names = names
                self.handles = {name.decode(): self._opened[name] for name in names}
            self._handles_of = number
        return missing

    def open(self, env: lmdb.Environment, names: list[bytes]) -> None:
        """Open handles, while no transaction of this process writes."""
        for name in names:
            try:
                self._opened[name] = env.open_db(name, create=False)
            except lmdb.NotFoundError:
                continue  # deleted since it was listed: the next listing leaves it out

    def current(self, number: int) -> bool:
        """Return whether handles and digests belong to the transaction with this number."""
        return number == self._handles_of == self._digests_of

    def read_digests(self, txn: lmdb.Transaction[memoryview], number: int) -> None:
        """Read the digests as of this transaction number."""
        meta = self.handles.get(META)
        row = None if meta is None else txn.get(DIGESTS, db=meta)
        self.digests = None if row is None else Digests.of_row(bytes(row))
        self._digests_of = number

    def made(self, made: Handles) -> None:
        """Add the databases that a commit created."""
        if made:
            self._opened.update((name.encode(), handle) for name, handle in made.items())
            self.handles = {**self.handles, **made}

    def changed(self, number: int, digests: After) -> None:
        """Set the digests after the commit of this transaction."""
        self.digests = digests()
        self._handles_of = self._digests_of = number


def databases_of(env: lmdb.Environment, path: str, writing: bool) -> Databases:
    """Check an environment, and return its databases. A writer opens all handles now, a reader before each snapshot."""
    try:
        env.reader_check()
        _check_first(env, path)
        return Databases(_open_all(env) if writing else {})
    except PageDamaged as damage:
        if isinstance(damage, ForeignFile):
            raise StoreFormat(path, f"unknown ({damage.reason})", FORMAT) from damage
        raise damage.of(f"{path}, {damage.db}") from damage
    except (lmdb.Error, UnicodeDecodeError) as error:
        raise StoreFormat(path, f"unknown ({error})", FORMAT) from error


def _check_first(env: lmdb.Environment, path: str) -> None:
    """Check the pages that are read before any scrub. A read transaction keeps LMDB from reusing them."""
    while True:
        with env.begin() as txn, suppress(TooOld), Pages(path, txn.id()) as pages:
            pages.check_length()
            pages.check_newest()
            return _check_pages(pages)


def _check_pages(pages: Pages) -> None:
    """Walk `meta` with its digests, the smallest databases and the free list.

    Each opening does this, because it reads the store's metadata before a scrub can begin.
    """
    seen, left = pages.new_marks(), _FIRST
    trees = pages.databases(seen)
    digests_in(pages, trees, seen)
    for name, tree in sorted(trees.items(), key=lambda one: one[1].pages):
        left -= tree.pages
        if left < 0:
            break
        if name != META:
            for _ in pages.leaves(name, tree, seen):
                pass
    for _ in pages.free(seen):
        pass
    pages.check_count(trees.values())


def digests_in(pages: Pages, trees: Mapping[str, Tree], seen: bytearray) -> Digests | None:
    """Walk `meta` and return its digests, or None without them.

    Raise PageDamaged if a row or a whole database is lost.
    """
    keys: list[bytes] = []
    row: bytes | None = None
    for page in pages.leaves(META, trees[META], seen) if META in trees else ():
        keys += page.keys
        for key, value in zip(page.keys, page.values, strict=True):
            if key == DIGESTS:
                row = pages.value(value) if isinstance(value, Extent) else cast(bytes, value)
    if row is None:
        return None
    digests = Digests.of_row(row)
    for name, digest in digests.by_db.items():
        if digest.keys and name not in trees:
            raise PageDamaged(name, f"the database is lost, and it had {digest.keys} rows")
    if not digests.by_db[META].like(digest_of(keys)):
        raise PageDamaged(META, "it has other rows than were written")
    return digests


def _open_all(env: lmdb.Environment) -> Handles:
    """Open all handles. If half of the possible names are in use, delete the empty databases."""
    with env.begin(write=True) as txn:
        names = [bytes(name) for name in txn.cursor().iternext(values=False)]
        opened = {name: env.open_db(name, txn=txn, create=False) for name in names}
        if len(names) > MAX_DBS // 2:
            for name in names:
                if not txn.stat(opened[name])["entries"]:
                    txn.drop(opened.pop(name))
    return {name.decode(): handle for name, handle in opened.items()}
