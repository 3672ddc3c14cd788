"""The databases of a data file as an opening finds them, once the pages that lead to them are checked."""

from __future__ import annotations

from contextlib import suppress

import lmdb

from penstock.cache.errors import StoreFormat
from penstock.cache.lmdb_errors import FORMAT, MAX_DBS
from penstock.cache.lmdb_page import ForeignFile, PageDamaged, Pages, TooOld

__all__ = ["databases_of"]


def databases_of(env: lmdb.Environment, path: str, writing: bool) -> dict[str, lmdb._Database]:
    """The handles that a writer has from the beginning; one that only reads opens them before a snapshot."""
    try:
        env.reader_check()
        _check_first(env, path, writing)
        return _open_all(env) if writing else {}
    except PageDamaged as damage:
        if isinstance(damage, ForeignFile):
            raise StoreFormat(path, f"unknown ({damage.reason})", FORMAT) from damage
        raise damage.of(f"{path}, {damage.db}") from damage
    except (lmdb.Error, UnicodeDecodeError) as error:
        raise StoreFormat(path, f"unknown ({error})", FORMAT) from error


def _check_first(env: lmdb.Environment, path: str, writing: bool) -> None:
    """Check the pages that are read before any check; a read transaction keeps them from being used again."""
    while True:
        with env.begin() as txn, suppress(TooOld), Pages(path, txn.id()) as pages:
            pages.check_length()
            return pages.check_first(writing)


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
