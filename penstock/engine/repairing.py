"""Making views right again while others write: each is built once more beside itself, and what differs is replaced.

A view is built from a snapshot; what it is told meanwhile is heard, and told to the one beside it too. So, whatever
came between, the two stand at one position when they are compared for the last time and groups are replaced. Where rows
of a view change, the views on it follow: the groups of what those rows said and say are made right as well. Invariants:

- the lock is held for steps of a few groups, never for a scan;
- one repair goes on at a time; one whose hearing broke off is begun anew;
- what is said to be repaired is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cache import (
    MemoryStore,
    PenstockError,
    Store,
    StoreDamaged,
    Writer,
    decode_key,
    encode_key,
    is_long,
    read_mark,
    reindex,
)
from penstock.engine.refusing import Again, NotComplete, Unreadable
from penstock.engine.relearning import Learnt, relearn, remembered_in
from penstock.engine.remembering import forget, gone_of, remembered, shown_of
from penstock.engine.scratch import folder_store
from penstock.engine.snapshot import Snapshot
from penstock.mapreduce import (
    FunctionMapper,
    IndexReduce,
    RowDelta,
    RowReading,
    ViewNode,
    Writes,
    fed_changes,
    held_db,
    same_result,
    told_db,
)
from penstock.recovery import (
    Heard,
    Mapping,
    Mended,
    Mender,
    Repaired,
    Replaced,
    Scan,
    Shadow,
    hearing,
    same_pairs,
)
from penstock.views import ABSENT, Progress, Row, Table, View

if TYPE_CHECKING:
    from penstock.engine.core import Core

_STEP = 64  # groups that one step replaces at most
_BLOCK = 1 << 12  # rows that are in memory at once
_MANY = 10_000  # rows that change, from which on a view on them is made right as a whole
_IN_MEMORY = 100_000  # documents, up to which the view beside is kept in memory
_ATTEMPTS = 3
_SHOWN = (Mended.RESULT, Mended.UNREADABLE)  # what readers, and views on a view, are shown

Found = dict[tuple[str, bytes], Repaired]


class Repair:
    """Repairs of one store, whose writer is behind this lock; `path` is where a large view is built."""

    def __init__(
        self,
        core: Core,
        lock: AbstractContextManager[Any],
        path: str | None,
        progress: Progress | None,
        fix: bool = True,
    ) -> None:
        self.fix = fix  # or else only say what would be done
        self.left: list[str] = []  # what could not be compared
        self.anew: list[str] = []  # damaged rows of what views remember, which were made anew
        self._wrong_rows: set[str] = set()  # views whose results are wrong, as they are left
        self._core = core
        self._lock = lock
        self._path = path
        self._progress = progress
        self._found: Found = {}
        self._learnt: dict[str, list[Learnt]] = {}  # what was made anew of views that are to be made right after it

    def found(self) -> list[Repaired]:
        """What was repaired, each group once."""
        return list(self._found.values())

    def complete(self, name: str) -> None:
        """That a view is complete, and so can be repaired."""
        if self._core.views[name].building is not None:
            raise NotComplete(name)

    def view(self, name: str, asked: Sequence[bytes] | None) -> None:
        """Make a view right, or these of its groups; and what follows from it. One that is being built is right."""
        if self._core.views[name].building is not None:
            return
        if not self.fix and self._on_wrong_rows(name):
            return
        distinct = None if asked is None else sorted(set(asked))
        if distinct is not None and not distinct:
            return
        for _ in range(_ATTEMPTS):
            try:
                if distinct is None and self.fix:
                    self.relearn(name)
                replaced = self._once(name, distinct)
                break
            except StoreDamaged as damage:
                if not self.fix or distinct is None or damage.where not in remembered_in(self._core.views[name]):
                    raise
                distinct = None  # whose groups it would say is not known
            except Unreadable as damage:
                if not self.fix:
                    self._wrong_rows.add(self._core.views[name].view.source.name)
                    self._on_wrong_rows(name)
                    return
                source = self._core.app.view_of(name).source.name
                self.view(source, None if any(map(is_long, damage.keys)) else damage.keys)
            except Again:
                self._read_anew()
        else:
            raise PenstockError(
                f"view {name!r} could not be compared: writing failed meanwhile, {_ATTEMPTS} times; mend what keeps "
                "batches from being written, then run this again"
            )
        self._note([one.repaired for one in replaced])
        self._note_learnt(name)
        if not self.fix:
            self._wrong_rows |= {one.repaired.view for one in replaced if one.repaired.what in _SHOWN}
            return
        if distinct is None:
            self._forget_gone(name)
        moved = [one for one in replaced if one.repaired.what in _SHOWN]
        if moved:
            for child in [node.name for node in self._core.views[name].children]:
                self._follow(child, moved)

    def _on_wrong_rows(self, name: str) -> bool:
        """Whether a view is on rows that are wrong, and so can't be compared before these are repaired."""
        source = self._core.views[name].view.source.name
        if source not in self._wrong_rows:
            return False
        self._wrong_rows.add(name)
        self.left.append(
            f"view {name!r} is on rows of view {source!r} that are wrong, and compared once these are repaired"
        )
        return True

    def _note(self, repaired: Sequence[Repaired]) -> None:
        for one in repaired:
            key = one.view, b"" if one.group is ABSENT else encode_key(one.group)
            self._found[key] = one.after(self._found.get(key))

    def relearn(self, name: str) -> None:
        """Make anew what is damaged of what a view remembers; what it counts is to be made right after that."""
        if self._core.views[name].building is None:
            self._learnt.setdefault(name, []).extend(relearn(self._core, name, self.amended, self._read_anew))

    def reindex(self, table: Table) -> None:
        """Make the index of a table anew; writers wait for it, since they could not go by the damaged one."""
        with self._lock:
            with self._core.store.write() as writer:
                reindex(writer, self._core.tables[table.name].number, table.has_ts)
            self._core.forget()

    def _note_learnt(self, name: str) -> None:
        learnt = self._learnt.pop(name, [])
        self.anew += [one.where for one in learnt]
        if any(not one.groups for one in learnt):
            self._note([Repaired(name, ABSENT, ABSENT, ABSENT, Mended.REMEMBERED)])
        groups = sorted({group for one in learnt for group in one.groups})
        if groups:
            with self._core.store.read() as reader:
                results = shown_of(reader, self._core.views[name], groups)
            self._note([Repaired(name, decode_key(g), r, r, Mended.REMEMBERED) for g, r in results.items()])

    def _read_anew(self) -> None:
        with self._lock:
            self._core.forget()

    # -- one view

    def _once(self, name: str, asked: list[bytes] | None) -> list[Replaced]:
        definition, number = self._core.views[name].view, self._core.views[name].number
        with self.scratch(definition) as store:
            shadow = Shadow(definition, number, store, asked)
            with hearing(shadow.fields, asked) as heard, self._watched(name, heard) as snap:
                mender = Mender(shadow)
                if asked is None or mender.readable(snap.reader()):
                    wrong = self._wrong(snap, shadow, mender)
                    if not self.fix:
                        return mender.described(snap.reader(), wrong)
                    readable = mender.readable(snap.reader())
                    snap.close()
                    return self._replaced(name, shadow, heard, mender, wrong) if wrong or not readable else []
        return self._once(name, None)

    @contextmanager
    def _watched(self, name: str, heard: Heard) -> Iterator[Snapshot]:
        """A snapshot, from which on all that a view is told is heard."""
        source = self._core.views[name].view.source
        with self._lock:
            self._core.ready()
            if isinstance(source, View):
                self._core.views[source.name].reduce.forget()
            if self.fix:
                self._core.watch(name, heard)
            snap = Snapshot(self._core)
        try:
            with snap:
                yield snap
        finally:
            with self._lock:
                self._core.watch(name, None)

    def _wrong(self, snap: Snapshot, shadow: Shadow, mender: Mender) -> list[bytes]:
        scan = Scan(shadow.node, lambda: shadow.spaces, shadow.most, snap.reader(), self._progress)
        source = shadow.view.source
        if isinstance(source, Table):
            parts = scan.of_table(source, snap.log(source.name))
        else:
            parts = scan.of_rows(self._core.views[source.name])
        for part in parts:
            shadow.add(part)
        if scan.unreadable:
            raise Unreadable(scan.unreadable)
        return mender.differing(snap.reader())

    def _replaced(self, name: str, shadow: Shadow, heard: Heard, mender: Mender, wrong: list[bytes]) -> list[Replaced]:
        keyed = not isinstance(shadow.node.reduce, IndexReduce) and not any(map(is_long, wrong))
        wanted = frozenset(wrong) if keyed else None
        out: list[Replaced] = []

        def catch_up() -> None:
            if heard.lost:
                raise Again
            try:
                for told in heard.drain():
                    shadow.hear(told, wanted)
            except (StoreDamaged, AssertionError) as damage:
                raise Again from damage  # the writer remembers what the store doesn't

        catch_up()
        for a in range(0, max(len(wrong), 1), _STEP):

            def step(writer: Writer, writes: Writes, part: Sequence[bytes] = wrong[a : a + _STEP]) -> list[Replaced]:
                catch_up()
                return mender.mend(writer, self._core.views[name], part, writes)

            with self._lock:
                out += self._core.amend(step)
        return out

    @contextmanager
    def scratch(self, view: View) -> Iterator[Store]:
        """A store for a while: in memory for what is small."""
        table = self._core.tables[view.table.name]
        with self._core.store.read() as reader:
            small = read_mark(reader, table.number).present <= _IN_MEMORY
        if small or self._path is None:
            yield MemoryStore()
            return
        with folder_store(self._path) as store:
            yield store

    # -- the views on it

    def _follow(self, name: str, moved: Sequence[Replaced]) -> None:
        """Make the view on rows that changed right."""
        node = self._core.views[name]
        mapping = Mapping(node.view)
        asked: set[bytes] | None = None
        if len(moved) <= _MANY:
            asked = mapping.groups(
                [_row(one, old) for one in moved for old in (True, False) if _row(one, old) is not None]
            )
            asked = self._with_remembered(node, moved, asked)
        self.view(name, None if asked is None else sorted(asked))
        if isinstance(node.mapper, FunctionMapper):
            for a in range(0, len(moved), _STEP):
                self._retell_rows(name, mapping, moved[a : a + _STEP])

    def _with_remembered(self, node: ViewNode, moved: Sequence[Replaced], asked: set[bytes]) -> set[bytes] | None:
        """These groups, and those of what is remembered of rows; None where that can't be read."""
        try:
            with self._core.store.read() as reader:
                return asked.union(group for one in moved for group, _ in remembered(reader, node, one.key) or ())
        except StoreDamaged:
            return None

    def _retell_rows(self, name: str, mapping: Mapping, moved: Sequence[Replaced]) -> None:
        """Map rows that changed, where what is remembered of them no longer fits."""

        def step(writer: Writer, writes: Writes) -> None:
            node = self._core.views[name]
            deltas: list[RowDelta] = []
            source = self._core.views[node.view.source.name].reduce
            for one in moved:
                raw = writer.get_many(source.db, [one.key])[0]
                new: Row | None = None
                if raw is not None:
                    state = source.codec.decode(one.key, raw, f"view {node.view.source.name!r}")
                    new = Row(one.repaired.group, source.codec.result(state))
                told = remembered(writer, node, one.key)
                if new is None:
                    forget(node, [one.key] if told is not None else [], writer, writes)
                    continue
                [mapped] = mapping.pairs([Row(*new)])
                if mapped is not None and not same_pairs(told or [], mapped):
                    deltas.append(RowDelta(one.key, one.repaired.group, None, new))
            node.on_rows(writer, deltas, writes)

        self.amended(step)

    def _forget_gone(self, name: str) -> None:
        """Forget what a view remembers of documents, or rows of its source, that are not there any more."""
        node = self._core.views[name]
        dbs = [held_db(node.number)]
        if node.chained and isinstance(node.mapper, FunctionMapper):
            dbs.append(told_db(node.number))
        for db in dbs:
            start: bytes | None = b""
            while start is not None:
                with Snapshot(self._core) as snap:
                    block = list(islice(snap.reader().scan(db, start), _BLOCK))
                    gone = gone_of(snap, node, db, block)
                start = block[-1][0] + b"\0" if len(block) == _BLOCK else None
                if gone:
                    self.amended(partial(self._forget_step, name, db, gone))

    def _forget_step(self, name: str, db: str, keys: Sequence[bytes], writer: Writer, writes: Writes) -> None:
        node = self._core.views[name]
        found = zip(keys, writer.get_many(db, keys), strict=True)
        with Snapshot(self._core) as snap:  # nobody has written since
            still = gone_of(snap, node, db, [(key, row) for key, row in found if row is not None])
        forget(node, still, writer, writes)
        if still and not node.chained:
            writes.after.append(self._core.tables[node.view.source.name].forget)

    def amended(self, change: Callable[[Writer, Writes], object]) -> None:
        """A transaction whose changes of views are repairs."""

        def step(writer: Writer, writes: Writes) -> list[Repaired]:
            writes.feeding = True
            change(writer, writes)
            return self._changes(writes)

        with self._lock:
            self._note(self._core.amend(step))

    def _changes(self, writes: Writes) -> list[Repaired]:
        by_number = {node.number: node for node in self._core.views.values()}
        out: list[Repaired] = []
        for part in writes.fed:
            node = by_number[part.view]
            codec: RowReading = node.reduce.codec
            for change in fed_changes(part, codec):
                old = ABSENT if change.old is None else codec.result(change.old)
                new = ABSENT if change.new is None else codec.result(change.new)
                same = old is not ABSENT and new is not ABSENT and same_result(old, new)
                what = Mended.CONTENT if same else Mended.RESULT
                out.append(Repaired(node.name, decode_key(change.group), old, new, what))
        return out


def _row(one: Replaced, old: bool) -> Row | None:
    result = one.repaired.old if old else one.repaired.new
    return None if result is ABSENT else Row(one.repaired.group, result)
