"""Translate errors of LMDB and of the system into errors of Penstock."""

from __future__ import annotations

import errno
import os
import resource

import lmdb

from penstock.cache.errors import Closed, PenstockError, StoreDamaged, StoreFormat, StoreFull, StoreMissing
from penstock.cache.store.protocol import MAX_KEY

__all__ = ["FORMAT", "MAX_DBS", "MAX_READERS", "MORE_FILES", "too_many_files", "translated"]

MORE_FILES = "close other stores, or allow more (ulimit -n)"
MAX_DBS = 1024
MAX_READERS = 1024
FORMAT = "LMDB 0.9, all its rows in named databases"
_NAMED_BY = "run `penstock check`, or engine.check(): it names the damaged pages or rows and the next step"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}


def translated(path: str, error: lmdb.Error | OSError) -> Exception:
    """Translate an error of LMDB or of the system for the user of the store at a path."""
    code: int = (error.errno if isinstance(error, OSError) else getattr(error, "code", 0)) or 0
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(path, "its map is full")
    if code in _NO_ROOM:
        return StoreFull(path, os.strerror(code))
    if code == errno.EIO:  # LMDB reports this when the disk took only part of a write
        return StoreFull(path, "Input/output error, its disk is full, over a quota, or failing")
    if code == errno.ENOMEM:
        return PenstockError(
            f"no memory or no address space for the store at {path}: {error}; put smaller batches, close other stores "
            "of this process, or allow more (ulimit -v)"
        )
    if code in (errno.EMFILE, errno.ENFILE):
        return PenstockError(too_many_files(path))
    if code in _NO_RIGHT:
        return PenstockError(
            f"no permission for the store at {path}: {os.strerror(code)}; this user must be able to read and write "
            "the files in it, lock.mdb also to read"
        )
    if code == errno.ENOENT:
        return StoreMissing(path)
    if code in (errno.EEXIST, errno.ENOTDIR):
        return PenstockError(f"{path} is not a folder, and a store is one; choose another path")
    return _translated_lmdb(path, error)


def too_many_files(path: str) -> str:
    """Return the message for a store that can't be opened because too many files are open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"too many open files for the store at {path}: this process may have {most}, and an open store takes about 6; "
        f"{MORE_FILES}"
    )


def _translated_lmdb(path: str, error: Exception) -> Exception:
    if isinstance(error, (lmdb.InvalidError, lmdb.VersionMismatchError)):
        return StoreFormat(path, f"unknown ({error})", FORMAT)
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError)):
        return StoreDamaged(f"{path}, {error}")
    if isinstance(error, lmdb.BadValsizeError):  # encoded keys fit, so this key came from damaged pages or rows
        return StoreDamaged(f"{path}, a key of no bytes, or of more than {MAX_KEY}", None, _NAMED_BY)
    if "closed/deleted/dropped" in str(error):
        return Closed(f"the store at {path}")
    if isinstance(error, lmdb.ReadersFullError):
        return PenstockError(f"the store at {path} has {MAX_READERS} snapshots open; close some")
    if isinstance(error, lmdb.DbsFullError):
        return PenstockError(f"the store at {path} has {MAX_DBS} databases; drop views, then open it again to write")
    return PenstockError(f"the store at {path} failed: {error}; close it and open it again")
