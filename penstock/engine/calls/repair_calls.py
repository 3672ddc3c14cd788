"""The calls of an engine about errors in its store: quarantine, repost, restate, check.

Invariant: a repair takes the writer's lock in short steps, and waits for another repair before it takes it at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.cache import ArgumentKind, PenstockError, checked, encode_key
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
from penstock.views import Progress, Table

__all__ = ["RepairCalls"]


class RepairCalls(ABC):
    """These calls, for a store of any kind."""

    store: EngineStore

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was put before is durable."""

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
        """What could not be taken, and is kept until it can: records, documents that views hold, groups that are held.

        All of it, or what is of a `kind` ("record", "document", "group"), a table, a view; `ids` names some. Documents
        that were dropped rest until their next version, and are listed with `resting`.

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
        """Try again what is in quarantine: entries by their ids, or all of a kind, a table, a view; else everything.

        A record is taken from the bytes that were received, with its own ts; without one only if its key was not
        written since. A document is mapped as it is now, for the view that holds it. A group's reducer is tried again.
        The answer counts what was taken, and says of what stayed why. Others write meanwhile.

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
        """Let go of entries by their ids, or of all of a kind, a table, a view.

        A record is forgotten. Of a document that a view holds, the view takes back what it was last told, and counts
        nothing of it until its next version. A group can't be dropped.

        engine.drop("r17").dropped
        """
        wanted = EntryFilter.of(ids, kind, table, view, limit)
        if wanted.everything:
            raise PenstockError("drop() needs to know what to let go of; give it ids, or kind=, table= or view=")
        return self._releases(progress).drop(wanted)

    @checked
    def repost(self, table: str, doc: Any, ts: Any = None, *, progress: Progress | None = None) -> list[Repaired]:
        """Post a value that may once have been told: nothing is left of it but what the documents are now.

        No document changes, whatever the ts. In every view of the table, and in views on these, each group is made
        right that the value would contribute to, or that its document contributes to; a view that holds the document
        takes it if it can. The answer says what was wrong; of a store that is right it is empty, and nothing is
        written. Others write meanwhile. `progress` is told how many lines or rows of a view are passed, of how many.

        engine.repost("users", {"id": 1001, "name": "Sam"})
        """
        return self.repost_many({table: [doc]}, progress=progress)

    @checked
    def repost_many(self, values: Mapping[str, Sequence[Any]], *, progress: Progress | None = None) -> list[Repaired]:
        """Post values of tables by the tables' names, with one scan of each view for those of one table.

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
        """Make right what views say, from what is remembered of the documents.

        `name` is a table, and the key that of a document, for all groups that it contributes to; or a view and a group;
        alone a whole view, or all views of a table. The group null goes with its whole view. The answer says what was
        wrong, as that of `repost` does.

        engine.restate("namecount", "Sam")
        """
        state = self.store.state
        state.must_be_writable()
        definition = state.app.lookup(name)
        asked = None if key_or_group is None else encode_key(key_or_group)
        with self._alone():
            repair = Restatement(self.store.site(), progress)
            if not isinstance(definition, Table):
                repair.complete(name)
                repair.view(name, None if asked is None else [asked])
            elif asked is not None:
                Repost(repair).restate(name, [key_or_group])
            else:
                for view in state.app.views():
                    if view.table is definition:
                        repair.view(view.name, None)
            return repair.found()

    @checked
    def check(self, fix: bool = False, *, progress: Progress | None = None) -> Checked:
        """Read all of the store, and hold views against what is remembered of the documents, while others write.

        With `fix` the groups that differ are restated. The report says what is wrong, from what to what; what views
        hold, and what their functions would yield otherwise now, is counted apart. `progress` is told how far each part
        is: lines and rows passed, of how many.

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
