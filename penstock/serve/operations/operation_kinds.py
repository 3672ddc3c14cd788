"""The kinds of operations, as one table for HTTP, gRPC, the audit log and the tests.

A kind has the permission that it needs, its arguments, and the repair of the engine that it runs. A new kind is a new
entry. Invariant: arguments are checked before the operation begins, so a fault of the request is answered at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from penstock.cache import ArgumentKind, DefinitionError, PenstockError
from penstock.engine import damaged_pages_at, partitions_of, repartition, restore_any
from penstock.recovery import Checked, EntryFilter, QuarantineKind, Repaired, Settled
from penstock.remote import OPERATIONS, SourceUnread, switch_sources
from penstock.serve.access.access_tokens import Permission
from penstock.serve.operations.controlled_store import ControlledStore, IdleStore
from penstock.serve.operations.snapshot_manifest import MANIFEST, check_manifest, write_manifest
from penstock.views import Progress, group_of_json, json_value

__all__ = ["KINDS", "OperationKind"]

_KINDS_OF_ENTRIES = [kind.value for kind in QuarantineKind]
_LISTED = 1_000  # repaired groups of a result
_UNSET = msgspec.UNSET


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of one kind."""

    def about(self) -> dict[str, Any]:
        """Return the objects of the operation, for the audit log."""
        given = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value not in (_UNSET, None, "")}

    def check(self, store: ControlledStore) -> None:
        """Raise PenstockError for arguments that can't be of this store."""

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Run the operation, and return its result as JSON values."""
        raise NotImplementedError

    def run_idle(self, store: IdleStore, tell: Progress) -> Any:
        """Run an operation that needs the store for itself, and return its result as JSON values."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OperationKind:
    """One kind; `path` is its route. An `idle` one needs a store that no other process has open."""

    name: str
    path: str
    permission: Permission
    arguments: type[_Arguments]
    idle: bool = False

    def asked(self, given: Mapping[str, Any]) -> _Arguments:
        """Return the arguments of a request. DefinitionError names a wrong one."""
        try:
            return msgspec.convert(dict(given), self.arguments)
        except msgspec.ValidationError as error:
            fields = ", ".join(own.name for own in msgspec.structs.fields(self.arguments)) or "none"
            raise DefinitionError(f"{self.name} has these arguments: {fields}; {error}") from None


class _CheckArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    fix: bool = False

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Read the pages first, as LMDB may crash on damaged ones, then compare all views."""
        pages = [] if store.path is None else damaged_pages_at(store.path, tell)
        if pages:
            return {"ok": False, "damaged": pages, "summary": f"{len(pages):,} damaged; the rest was not read"}
        report: Checked = store.access.call(OPERATIONS["check"], tell, fix=self.fix)
        out: dict[str, Any] = {"ok": report.ok, "rows": report.rows, "documents": report.documents}
        out |= {"wrong": _repairs(report.wrong), "wrong_total": len(report.wrong), "fixed": report.fixed}
        out |= {"damaged": list(report.damaged), "anew": list(report.anew)}
        return out | {"held": dict(report.held), "told": dict(report.told), "summary": str(report)}


class _RestateArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    name: str
    group: Any = _UNSET

    def check(self, store: ControlledStore) -> None:
        """Raise UnknownName if there is no such table or view."""
        store.app.lookup(self.name)

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Restate a group, the groups of a document, or all of a view or table."""
        group = None if self.group is _UNSET else group_of_json(self.group)
        return _repaired(store.access.call(OPERATIONS["restate"], tell, name=self.name, key_or_group=group))


class _RepostArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    table: str
    documents: list[dict[str, Any]]

    def about(self) -> dict[str, Any]:
        """Return the table and the number of documents."""
        return {"table": self.table, "documents": len(self.documents)}

    def check(self, store: ControlledStore) -> None:
        """Raise UnknownName if there is no such table."""
        store.app.table_of(self.table)

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Remove contributions that former values of documents left."""
        return _repaired(store.access.call(OPERATIONS["repost_many"], tell, values={self.table: self.documents}))


class _EntryArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    ids: list[str] | None = None
    kind: str | None = None
    table: str | None = None
    view: str | None = None
    limit: int | None = None

    @property
    def selection(self) -> EntryFilter:
        """The entries of the quarantine that are meant."""
        return EntryFilter.of(self.ids, self.kind, self.table, self.view, self.limit)

    def check(self, store: ControlledStore) -> None:
        """Raise an error for a table, view or kind that does not exist."""
        if self.kind is not None and self.kind not in _KINDS_OF_ENTRIES:
            raise ArgumentKind("kind", self.kind, f"write one of {', '.join(_KINDS_OF_ENTRIES)}")
        if self.table is not None:
            store.app.table_of(self.table)
        if self.view is not None:
            store.app.view_of(self.view)
        if self.limit is not None and self.limit < 1:
            raise ArgumentKind("limit", self.limit, "write 1 or more")


class _RetryArguments(_EntryArguments, frozen=True, forbid_unknown_fields=True):
    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Try entries of the quarantine again."""
        return _settled(store.access.call(OPERATIONS["retry"], tell, **self.selection.asked()))


class _DropArguments(_EntryArguments, frozen=True, forbid_unknown_fields=True):
    def check(self, store: ControlledStore) -> None:
        """Refuse a request that selects nothing."""
        super().check(store)
        if self.selection.everything:
            raise DefinitionError("Drop needs a selection; give ids, kind, table or view")

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Drop entries of the quarantine."""
        return _settled(store.access.call(OPERATIONS["drop"], tell, **self.selection.asked()))


class _SnapshotArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    path: str | None = None

    def check(self, store: ControlledStore) -> None:
        """Refuse a path that leads out of the folder of snapshots."""
        if self.path is not None:
            store.snapshot_folder(self.path)

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Copy the store into a folder below that of all snapshots, and read the copy back."""
        folder = store.snapshot_folder(self.path or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
        copied = store.access.reader.copy(folder, lambda _, done, total: tell(done, total))
        manifest = write_manifest(store.app, folder, tell)
        return {"path": copied.path, "bytes": copied.bytes, "app": copied.app, "position": copied.position} | {
            name: manifest[name] for name in ("ranges", "epoch", "digest")
        }


class _MigrateArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False

    def check(self, store: ControlledStore) -> None:
        """Refuse a migration in place: the processes of the server have the former app."""
        if not self.dry_run:
            raise PenstockError(
                "the processes of this server have the app as it was at their start; end the server, run `penstock "
                "migrate`, and start it again; dry_run=1 shows the changes now"
            )
        if store.app_file is None or store.path is None:
            raise PenstockError("this server has no file of the app, so there is nothing to compare; start it by --app")

    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Preview the app's file in a process of its own, which imports all modules as they are now."""
        command = [sys.executable, "-m", "penstock", "migrate", "--dry-run", "--format", "json"]
        command += ["--app", str(store.app_file), "--store", str(store.path)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or not done.stdout:
            raise PenstockError(done.stderr.strip().removeprefix("penstock: ") or "the preview ended without a result")
        return json_value(done.stdout)


class _SourceArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    source: str | None = None

    def check(self, store: ControlledStore) -> None:
        """Refuse a store in memory, which no other process reads into."""
        if store.path is None:
            raise SourceUnread("memory", self.source, [])

    def _switch(self, store: ControlledStore, to_pause: bool) -> Any:
        assert store.path is not None, "it was checked"
        done = switch_sources(store.path, self.source or None, to_pause)
        if done.late:
            raise PenstockError("; ".join(map(str, done.late)))
        return {"sources": [asdict(own) for own in done.sources]}


class _PauseArguments(_SourceArguments, frozen=True, forbid_unknown_fields=True):
    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Pause the processes that read a source into the store, or any source."""
        return self._switch(store, True)


class _ResumeArguments(_SourceArguments, frozen=True, forbid_unknown_fields=True):
    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Resume the processes that read a source into the store, or any source."""
        return self._switch(store, False)


class _CompactArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    def run(self, store: ControlledStore, tell: Progress) -> Any:
        """Free the space of old versions."""
        return asdict(store.access.call(OPERATIONS["compact"], tell))


class _AddArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    id: int | None = None

    def check(self, store: ControlledStore) -> None:
        """Refuse a number that a partition has, or that leaves a gap."""
        count = _partitions(store)
        if self.id not in (None, count):
            raise DefinitionError(f"the store has the partitions 0 to {count - 1}; the next one is {count}")

    def run_idle(self, store: IdleStore, tell: Progress) -> Any:
        """Turn the store into one of a partition more."""
        return _repartitioned(store, 1, tell)


class _RemoveArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    id: int | None = None
    merge_into: int | None = None

    def check(self, store: ControlledStore) -> None:
        """Refuse to remove the only partition, whose keys would have no owner."""
        count = _partitions(store)
        for own in (self.id, self.merge_into):
            if own is not None and not 0 <= own < count:
                raise DefinitionError(f"there is no partition {own}; the store has the partitions 0 to {count - 1}")
        if count == 1:
            raise PenstockError("the store has one partition, and without it no key would have an owner")

    def run_idle(self, store: IdleStore, tell: Progress) -> Any:
        """Turn the store into one of a partition less; the others share its keys."""
        return _repartitioned(store, -1, tell)


class _RestoreArguments(_Arguments, frozen=True, forbid_unknown_fields=True):
    path: str
    force: bool = False

    def check(self, store: ControlledStore) -> None:
        """Refuse a path that has no complete snapshot, and content that would be lost without `force`."""
        if not os.path.exists(os.path.join(store.snapshot_folder(self.path), MANIFEST)):
            raise DefinitionError(f"{self.path!r} has no complete snapshot below {store.snapshots}")
        if not self.force:
            raise DefinitionError("Restore replaces the content of the store, which is lost; give force to mean that")

    def run_idle(self, store: IdleStore, tell: Progress) -> Any:
        """Replace the store with a snapshot, whose files are compared with its manifest first."""
        folder = store.snapshot_folder(self.path)
        check_manifest(folder, tell)
        done = restore_any(folder, store.path, self.force, lambda _, passed, total: tell(passed, total))
        return {"path": folder, "bytes": done.bytes, "app": done.app, "position": done.position}


KINDS = {
    kind.name: kind
    for kind in (
        OperationKind("Check", "/v1/check", Permission.OPERATE, _CheckArguments),
        OperationKind("Restate", "/v1/restate", Permission.OPERATE, _RestateArguments),
        OperationKind("Repost", "/v1/repost", Permission.ADMIN, _RepostArguments),
        OperationKind("Retry", "/v1/quarantine/retry", Permission.OPERATE, _RetryArguments),
        OperationKind("Drop", "/v1/quarantine/drop", Permission.ADMIN, _DropArguments),
        OperationKind("Snapshot", "/v1/snapshot", Permission.OPERATE, _SnapshotArguments),
        OperationKind("Migrate", "/v1/migrate", Permission.ADMIN, _MigrateArguments),
        OperationKind("AddPartition", "/v1/partitions/add", Permission.ADMIN, _AddArguments, idle=True),
        OperationKind("RmPart", "/v1/partitions/remove", Permission.ADMIN, _RemoveArguments, idle=True),
        OperationKind("Restore", "/v1/restore", Permission.ADMIN, _RestoreArguments, idle=True),
        OperationKind("Pause", "/v1/pause", Permission.ADMIN, _PauseArguments),
        OperationKind("Resume", "/v1/resume", Permission.ADMIN, _ResumeArguments),
        OperationKind("Compact", "/v1/compact", Permission.ADMIN, _CompactArguments),
    )
}
"""All kinds, by name."""


def _partitions(store: ControlledStore) -> int:
    """Return the number of partitions. PenstockError for a store in memory."""
    if store.path is None:
        raise PenstockError("a store in memory keeps its partitions; open the app on a path")
    return partitions_of(store.path)


def _repartitioned(store: IdleStore, more: int, tell: Progress) -> dict[str, Any]:
    to = partitions_of(store.path) + more
    return repartition(store.path, to, lambda _, done, total: tell(done, total)).data()


def _repaired(found: list[Repaired]) -> dict[str, Any]:
    return {"repaired": _repairs(found), "total": len(found)}


def _repairs(found: list[Repaired] | tuple[Repaired, ...]) -> list[dict[str, Any]]:
    return [own.data() for own in found[:_LISTED]]


def _settled(done: Settled) -> dict[str, Any]:
    counts = {name: getattr(done, name) for name in ("applied", "equal", "late", "released", "dropped", "left")}
    return {**counts, "reasons": [{"id": own.id, "reason": own.reason} for own in done.why], "summary": str(done)}
