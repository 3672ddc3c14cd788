"""The databases of a data file as an opening finds them, once the pages that lead to them are checked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import lmdb

from penstock.cache.digests import DIGESTS, Digests, digest_of
from penstock.cache.errors import StoreFormat
from penstock.cache.lmdb_errors import FORMAT, MAX_DBS
from penstock.cache.lmdb_page import Extent, ForeignFile, PageDamaged, Pages, TooOld, Tree
from penstock.cache.store import META

__all__ = ["databases_of", "digests_in"]

_FIRST = 256  # pages of the smallest databases that an opening walks


def databases_of(env: lmdb.Environment, path: str, writing: bool) -> tuple[dict[str, lmdb._Database], Digests | None]:
    """The handles that a writer has from the beginning, and the digests; a reader opens handles before a snapshot."""
    try:
        env.reader_check()
        digests = _check_first(env, path, writing)
        return _open_all(env) if writing else {}, digests
    except PageDamaged as damage:
        if isinstance(damage, ForeignFile):
            raise StoreFormat(path, f"unknown ({damage.reason})", FORMAT) from damage
        raise damage.of(f"{path}, {damage.db}") from damage
    except (lmdb.Error, UnicodeDecodeError) as error:
        raise StoreFormat(path, f"unknown ({error})", FORMAT) from error


def _check_first(env: lmdb.Environment, path: str, writing: bool) -> Digests | None:
    """Check the pages that are read before any check; a read transaction keeps them from being used again."""
    while True:
        with env.begin() as txn, suppress(TooOld), Pages(path, txn.id()) as pages:
            pages.check_length()
            return _first_digests(pages, writing)


def _first_digests(pages: Pages, writing: bool) -> Digests | None:
    """Walk `meta`, the smallest databases, and for a writer the free list; the digests.

    An opening does so, for it reads what the store says of itself before a check can begin.
    """
    seen, left = pages.new_marks(), _FIRST
    trees = pages.databases(seen)
    digests = digests_in(pages, trees, seen)
    for name, tree in sorted(trees.items(), key=lambda one: one[1].pages):
        left -= tree.pages
        if left < 0:
            break
        if name != META:
            for _ in pages.leaves(name, tree, seen):
                pass
    if writing:
        for _ in pages.free(seen):
            pass
    return digests


def digests_in(pages: Pages, trees: Mapping[str, Tree], seen: bytearray) -> Digests | None:
    """Walk `meta` for the digests, None where there are none; no row may be lost there, nor a database of theirs."""
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


def _open_all(env: lmdb.Environment) -> dict[str, lmdb._Database]:
    """Open all handles; where half of the names there can be are taken, empty databases lose theirs."""
    with env.begin(write=True) as txn:
        names = [bytes(name) for name in txn.cursor().iternext(values=False)]
        opened = {name: env.open_db(name, txn=txn, create=False) for name in names}
        if len(names) > MAX_DBS // 2:
            for name in names:
                if not txn.stat(opened[name])["entries"]:
                    txn.drop(opened.pop(name))
    return {name.decode(): handle for name, handle in opened.items()}
