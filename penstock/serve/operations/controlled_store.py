"""The store of a server as operations use it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from penstock.cache import DefinitionError
from penstock.serve.store.store_access import StoreAccess
from penstock.views import App

__all__ = ["ControlledStore", "IdleStore"]


@dataclass(frozen=True, slots=True)
class IdleStore:
    """A store that no process has open, and the folder of its snapshots."""

    path: str
    snapshots: str

    def snapshot_folder(self, name: str) -> str:
        """Return the folder of a snapshot. DefinitionError if the name leads out of the folder of snapshots."""
        return _below(self.snapshots, name)


@dataclass(frozen=True, slots=True)
class ControlledStore:
    """A store, the folder of its snapshots, and the file of its app; `path` is None for a store in memory."""

    app: App
    access: StoreAccess
    path: str | None
    snapshots: str
    app_file: str | None = None

    def snapshot_folder(self, name: str) -> str:
        """Return the folder of a snapshot. DefinitionError if the name leads out of the folder of snapshots."""
        return _below(self.snapshots, name)


def _below(folder: str, name: str) -> str:
    inside = os.path.normpath(name)
    if not name or "\0" in name or os.path.isabs(inside) or inside.split(os.sep)[0] in ("..", "."):
        raise DefinitionError(
            f"{name!r} is no folder below {folder}, where this server keeps snapshots; write a relative "
            "path without '..'"
        )
    return os.path.join(folder, inside)
