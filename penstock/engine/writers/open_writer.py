"""The writer of a store: its engine if this process can open it, else a client of the process that holds it.

`writer(path, app)` opens the store. If another process holds it, the holder does the work and commits it there.
So a command is written once, for either case. Invariants:

- a call returns after its commit, or raises;
- a wait for the holder is bounded. `HolderSilent` follows after `patience` seconds of silence, and `HolderLost` after
  its end. Both name the work that is known to be committed;
- a record that is put again changes nothing. So the same call can be made again after either error.
"""

from __future__ import annotations

import os
import time
from typing import Any, Literal

from penstock.cache import PenstockError, StoreInUse
from penstock.core import MEMORY, Scrubbing
from penstock.engine.opening import open_engine
from penstock.remote import RemoteWriter, StoreWriter, WireClosed
from penstock.views import App

__all__ = ["memory_of_holder", "writer"]

PATIENCE = 10.0
"""Seconds without a sign of life after which a holder counts as hanging; it gives one each second."""
_MEMORY = 2.0  # seconds that a look at the holder's memory may take
_AGAIN = 0.02


def writer(
    path: str | os.PathLike[str],
    app: App,
    *,
    patience: float | None = None,
    memory: int = MEMORY,
    listen: bool = True,
    migrate: Literal["auto", "refuse"] = "auto",
    scrub: Scrubbing | None = None,
) -> StoreWriter:
    """The writer of the store at a path: opened here, or handed over to the process that holds it.

    >>> import tempfile, penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with tempfile.TemporaryDirectory() as path, ps.open(app, path) as engine:
    ...     with writer(path, app) as other:
    ...         print(other.put("users", {"id": 7, "name": "Sue"}), "by us" if other.holder is None else "by the other")
    ...     with engine.snapshot() as snap:
    ...         print(snap.table("users")[7])
    1 applied by the other
    {'id': 7, 'name': 'Sue'}
    """
    where = os.fspath(path)
    patience = PATIENCE if patience is None else patience
    known, until = None, 0.0
    while True:
        try:
            return open_engine(app, where, memory=memory, listen=listen, migrate=migrate, scrub=scrub)
        except StoreInUse as error:
            used = error
        if used.holder != known:  # many processes may hold the store one after the other
            known, until = used.holder, time.monotonic() + patience
        try:
            return RemoteWriter.reach(where, used.holder, patience)
        except WireClosed:  # it begins, or it has just ended, or it listens to nobody
            if time.monotonic() >= until:
                raise StoreInUse(where, f"{used.holder}, which takes no work from other processes") from None
        time.sleep(_AGAIN)


def memory_of_holder(path: str | os.PathLike[str], patience: float = _MEMORY) -> dict[str, Any] | None:
    """Ask the process that holds a store for its memory; None if there is none, or it does not answer.

    {"memory": bytes, "tables": {name: bytes}, "views": {name: bytes}}
    """
    try:
        with RemoteWriter.reach(os.fspath(path), "its holder", patience) as remote:
            return remote.memory()
    except (WireClosed, PenstockError):
        return None
