"""The calls of an engine about errors in its store: quarantine, repost, restate, check.

Invariant: a repair takes the writer's lock in short steps, and waits for another repair before it takes it at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.cache import ArgumentKind, DefinitionError, PenstockError, checked, encode_key
from penstock.engine.calls.protocol import EngineStore
from penstock.recovery import (
    Check,
    Checked,
    EntryFilter,
    PostedValue,
    Quarantined,
    QuarantineKind,
    QuarantineRetries,
    Repaired,
    Repost,
    Restatement,
    Settled,
    listed,
    posted,
)
from penstock.views import Join, Progress, Stream, View, streams_below

__all__ = ["RepairCalls"]


class RepairCalls(ABC):
    """The calls about errors, for a store of any kind."""

    store: EngineStore

    @abstractmethod
    def flush(self) -> None:
        """Wait until all earlier puts are durable."""

    @checked
    def quarantine(
        self,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        *,
        ids: str | Sequence[str] | None = None,
        resting: bool = False,
    ) -> Iterator[Quarantined]:
        """List the quarantine: rejected records, and the documents and groups that views hold.

        The list can be limited to a `kind` ("record", "document", "group"), a table, a view, or `ids`. A dropped
        document rests until its next version, and is listed with `resting`.

        for entry in engine.quarantine("record", table="users"):
            print(entry.id, entry.source, entry.place, entry.reason)
        """
        return self._listed(EntryFilter.of(ids, kind, table, view, limit, resting))

    def _listed(self, wanted: EntryFilter) -> Iterator[Quarantined]:
        with self.store.snapshot() as snap, snap.naming():
            yield from listed(snap, wanted)

    @checked
    def retry(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Settled:
        """Retry entries of the quarantine: by ids, or all of a kind, a table or a view. The default is everything.

        A record is taken from its received bytes, with its own ts. Without a ts it is taken only if its key was not
        written since. A held document is mapped again in its current version. The reducer of a held group runs again.
        The result counts the released entries, and gives a reason for each of the others. Others write meanwhile.

        engine.retry(view="namecount").released
        """
        return self._releases(progress).retry(EntryFilter.of(ids, kind, table, view, limit))

    @checked
    def drop(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Settled:
        """Drop entries of the quarantine: by ids, or all of a kind, a table or a view.

        A record is deleted. For a held document, the view retracts the last contributions, and counts nothing of the
        document until its next version. A group can't be dropped.

        engine.drop("r17").dropped
        """
        wanted = EntryFilter.of(ids, kind, table, view, limit)
        if wanted.everything:
            raise PenstockError("drop() needs to know what to let go of; give it ids, or kind=, table= or view=")
        return self._releases(progress).drop(wanted)

    @checked
    def repost(self, table: str, doc: Any, ts: Any = None, *, progress: Progress | None = None) -> list[Repaired]:
        """Post an old value of a document, to remove contributions that it may have left in views.

        Documents never change, for any ts. The call repairs each group to which the value or its current document
        contributes, in every view of the table and in views on these. A view that holds the document takes it if it
        can. The result lists the errors. In a correct store it is empty, and nothing is written. Others write
        meanwhile. `progress` receives the number of lines or rows of a view done and the total.

        engine.repost("users", {"id": 1001, "name": "Sam"})
        """
        return self.repost_many({table: [doc]}, progress=progress)

    @checked
    def repost_many(self, values: Mapping[str, Sequence[Any]], *, progress: Progress | None = None) -> list[Repaired]:
        """Repost values of several tables, by table name. Each view is scanned once for all values of one table.

        engine.repost_many({"users": [{"id": 1001, "name": "Sam"}, {"id": 1002, "name": "Joe"}]})
        """
        if not isinstance(values, Mapping) or not all(isinstance(docs, list | tuple) for docs in values.values()):
            raise ArgumentKind("values", values, "give lists of documents by the names of their tables")
        for name in values:
            self.store.state.must_be_writable(name)
        app = self.store.state.app
        return self._repost(
            {name: [posted(app.table_of(name), doc) for doc in docs] for name, docs in values.items()}, progress
        )

    @checked
    def restate(self, name: str, key_or_group: Any = None, *, progress: Progress | None = None) -> list[Repaired]:
        """Correct groups of views, from the remembered contributions of the documents.

        `name` with a key is a table with a document: all groups to which it contributes. Or it is a view with a group.
        A name alone is a whole view, or all views of a table. The group null can only be restated with its whole view.
        The result lists the errors, as for `repost`.

        engine.restate("namecount", "Sam")
        """
        state = self.store.state
        state.must_be_writable()
        definition = state.app.lookup(name)
        if isinstance(definition, Join) and key_or_group is not None:
            raise DefinitionError(f"the join {name!r} has no groups; write restate({name!r}), or name a view on it")
        if streams := [definition] if isinstance(definition, Stream) else streams_below(definition):
            raise DefinitionError(
                f"{name!r} can't be restated: the stream {streams[0].name!r} stores no records to compute it from"
            )
        asked = None if key_or_group is None else encode_key(key_or_group)
        with self._alone():
            repair = Restatement(self.store.site(), progress)
            if isinstance(definition, Join):
                repair.join(definition.stages[0].name)
            elif isinstance(definition, View):
                repair.complete(name)
                repair.view(name, None if asked is None else [asked])
            elif asked is not None:
                Repost(repair).restate(name, [key_or_group])
            else:
                for view in state.app.views():
                    if definition in view.tables:
                        repair.view(view.name, None)
            return repair.found()

    @checked
    def check(self, fix: bool = False, *, progress: Progress | None = None) -> Checked:
        """Read the whole store, and compare views with the remembered contributions, while others write.

        With `fix` the groups that differ are restated. The report lists each error with the wrong and the right result.
        It counts held documents and groups, and functions that would yield other results now, separately. `progress`
        receives the number of lines and rows of each part done, and the total.

        engine.check().ok
        """
        self.store.state.must_be_writable()
        with self._alone():
            return Check(Restatement(self.store.site(), progress, fix), progress).run()

    def _releases(self, progress: Progress | None) -> QuarantineRetries:
        self.store.state.must_be_writable()
        self.flush()
        return self.store.releases(progress)

    def _repost(self, values: Mapping[str, Sequence[PostedValue]], progress: Progress | None = None) -> list[Repaired]:
        with self._alone():
            repair = Restatement(self.store.site(), progress)
            for name, posts in values.items():
                Repost(repair).repost(name, posts)
            return repair.found()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Repair while no other repair does, once all views are built and all puts before are in."""
        self.flush()
        self.store.building.settle()
        with self.store.state.repairing, self.store.naming():
            yield
