"""What users ask of repairs: reposts and restatements, one after the other, each of them online.

Invariant: a repair takes the lock in short steps, and waits for another one before it takes it at all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.cache import ArgumentKind, RecordError, checked, encode_key
from penstock.engine.calls.scrub_calls import Scrubs
from penstock.recovery import Check, Checked, OneSite, Posted, Repair, Repaired, Reposting, Site, posted
from penstock.spout import Record
from penstock.views import App, Progress, Table


class Repairs(Scrubs):
    """The repairs of an engine, whose writer is behind its lock; of views that are being built there is nothing yet."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Lock()

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
            self._writable(name)
        app = self._core.app
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
        self._writable()
        definition = self._core.app.lookup(name)
        asked = None if key_or_group is None else encode_key(key_or_group)
        self.flush()
        self._settle()
        with self._turn, self._core.naming():
            repair = Repair(self._site(), progress)
            if not isinstance(definition, Table):
                repair.complete(name)
                repair.view(name, None if asked is None else [asked])
            elif asked is not None:
                Reposting(repair).restate(name, [key_or_group])
            else:
                for view in self._core.app.views():
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
        self._writable()
        self.flush()
        self._settle()
        with self._turn, self._core.naming():
            return Check(Repair(self._site(), progress, fix), progress).run()

    def _site(self) -> Site:
        """Where repairs work."""
        return OneSite(self._core, self._lock, self._path)

    def _repost(self, values: Mapping[str, Sequence[Posted]], progress: Progress | None = None) -> list[Repaired]:
        self.flush()
        self._settle()
        with self._turn, self._core.naming():
            repair = Repair(self._site(), progress)
            for name, posts in values.items():
                Reposting(repair).repost(name, posts)
            return repair.found()

    def _repost_of(self, records: Iterable[Record], done: int) -> None:
        """The reposts among what a spout delivers from an offset on; those that can't be taken are refused later."""
        known: dict[str, list[Posted]] = {}
        for record in records:
            if not isinstance(record, Record):
                raise ArgumentKind("records", record, "give an iterable of ps.Record")
            if record.repost and (record.offset is None or record.offset >= done):
                found = posted_or_not(self._core.app, record)
                if isinstance(found, Posted):
                    known.setdefault(record.table, []).append(found)
        if known:
            self._repost(known)


def posted_or_not(app: App, record: Record) -> Posted | RecordError:
    """The value that a record posts, or why it can't be one."""
    try:
        return posted(app.table_of(record.table), record.doc)
    except RecordError as error:
        return error
