"""A view as a node: its map, its reducer, its groups, and what is held of it.

The node of a view on a table is driven by the gateway, which remembers what each document contributed; the node of a
view on a view is driven here, by the changes of its source's rows. Both end in the same reducer. Invariants:

- what a function yielded for a row of its source is remembered by the source's group, in the view's own database, and a
  retraction takes back exactly that; what fields yielded is derived from the row again;
- a held row keeps what it was last told, in the database of held documents, until a version of it can be taken;
- memory is changed only by what `advance` leaves in `Writes.after`, which runs after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import FEW, Reader, encode_key
from penstock.mapreduce.columns.extract import input_column
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import SourceKeys
from penstock.mapreduce.contribution_sets import settled
from penstock.mapreduce.decode.decoder import Decoder
from penstock.mapreduce.fold.accumulator_fold import Folded, ReduceNode
from penstock.mapreduce.fold.group_sums import Delta
from penstock.mapreduce.fold.row_format import RowCodec, same_result
from penstock.mapreduce.fold.small_fold import FewContributions, in_columns
from penstock.mapreduce.group_crossing import Crossing, Gathered
from penstock.mapreduce.hidden_generation import Building
from penstock.mapreduce.maps.emissions import Contributions, Emissions, Pairs, emissions_row, read_emissions
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import Plan, Spaces, keeps_contributions
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold
from penstock.mapreduce.maps.held_rows import held_row, read_held
from penstock.mapreduce.pending_writes import RowDelta, Writes
from penstock.mapreduce.plain_index import IndexReduce
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.mapreduce.trees.tree_fold import TreeReduce
from penstock.mapreduce.view_databases import held_db, resting_db, rows_db, told_db
from penstock.views import TS, FieldMap, Key, Path, Row, View


@lru_cache(maxsize=256)
def _codec_of(view: View) -> RowCodec:
    """How rows of a view are written and read, the same at each opening."""
    return RowCodec(resolved(view.reducers), view.fields)


class Watch(Protocol):
    """Hears what a view is told, once that is committed."""

    def told(self, groups: Groups, plus: Contributions, minus: Contributions) -> None:
        """These contributions came and these went; codes are those of `groups`."""
        ...


Who = tuple[SourceKeys, NDArray[np.int64]]  # keys, and the numbers of those documents among them


class ViewNode:
    """One view at work."""

    def __init__(self, view: View, number: int, spaces: Spaces | None, complete: bool, few: int = FEW) -> None:
        self.view = view
        self.name = view.name
        self.number = number
        self.children: list[ViewNode] = []
        codec = _codec_of(view)
        self.mapper: FieldMapper | FunctionMapper
        self._spaces = spaces
        self._own = Groups()
        if isinstance(view.map, FieldMap):
            self.mapper = FieldMapper(view, view.map)
            fields = tuple(self.mapper.inputs)
            if spaces is None:
                self._spaces = Spaces()
        else:
            self.mapper = FunctionMapper(view.name, view.map.function, codec.cells, not (codec.cells or view.index))
            fields = (None,)
        self.reduce: ReduceNode | TreeReduce | IndexReduce
        if view.index:
            self.reduce = IndexReduce(rows_db(number), fields)
        elif keeps_contributions(view):
            self.reduce = TreeReduce(view.name, number, rows_db(number), codec, fields, few)
        else:
            self.reduce = ReduceNode(view.name, rows_db(number), codec, complete, few)
        self._decoder: Decoder | None = None  # of the rows of its source, where that is a view
        self.held = 0
        self.rests = False  # some of what is held may rest
        self.watch: Watch | None = None
        self.crossing: Crossing | None = None  # where other partitions own some of its groups
        self.building: Building | None = None  # while readers don't see this generation

    @property
    def chained(self) -> bool:
        """Whether it is a view of a view."""
        return isinstance(self.view.source, View)

    def _make_decoder(self) -> Decoder:
        return Decoder(Plan.of(Key((), False), None, [self.view]), self._spaces or Spaces(), 0)

    @property
    def groups(self) -> Groups:
        """The dictionary of its groups."""
        if isinstance(self.mapper, FieldMapper):
            assert self._spaces is not None
            return self._spaces.groups(self.mapper.fields.key)
        return self._own

    def nbytes(self, spaces: bool) -> int:
        """Bytes in use, about; with those of groups that it shares if `spaces`."""
        own = self._own.nbytes + (self._spaces.nbytes if spaces and self._spaces is not None else 0)
        return own + self.reduce.nbytes

    def forget(self, spaces: Spaces | None) -> None:
        """Drop what memory holds; `spaces` are those of its source."""
        self._own = Groups()
        self._spaces = Spaces() if spaces is None and isinstance(self.mapper, FieldMapper) else spaces
        self._decoder = None
        self.reduce.forget()

    # -- what it contributes

    @property
    def early(self) -> bool:
        """Whether groups of other partitions are told by sets, which they may be before those are saved."""
        return self.view.production.early

    @property
    def keeps(self) -> bool:
        """Whether it keeps contributions, and so must be told whose they are."""
        return not isinstance(self.reduce, ReduceNode)

    @property
    def stamped(self) -> bool:
        """Whether it reads the ts of documents."""
        return isinstance(self.reduce, TreeReduce) and self.reduce.stamped

    def emitted(self, emissions: Emissions, who: Who | None = None) -> Contributions:
        """The contributions of what its function yielded for these documents."""
        out = Contributions(emissions.code, emissions.inputs(self.reduce.fields))
        return out if who is None else out.of(*who, emissions.counts)

    def told_pairs(self, pairs: Sequence[Pairs], who: Who | None = None) -> Contributions:
        """The contributions that these pairs mean: of fields, the value is the list of what cells read."""
        emissions = Emissions.of_pairs(pairs, self.groups)
        if isinstance(self.mapper, FunctionMapper):
            return self.emitted(emissions, who)
        flat = [value for row in pairs for _, value in row]
        inputs = {
            f: input_column([v[i] for v in flat], len(flat), None, True) for i, f in enumerate(self.reduce.fields)
        }
        out = Contributions(emissions.code, inputs)
        return out if who is None else out.of(*who, emissions.counts)

    def pairs_of(self, contributions: Contributions) -> list[tuple[bytes, Any]]:
        """Field contributions as pairs, one each."""
        groups = self.groups
        columns = [contributions.inputs[f].values() for f in self.reduce.fields]
        return [(groups.whole(code), [c[i] for c in columns]) for i, code in enumerate(contributions.code.tolist())]

    # -- changes

    def advance(self, reader: Reader, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        """Fold contributions, and pass on what changes to the views on this one; of a parted store gather them."""
        if self.crossing is not None:
            if writes.planning and (not self.early or self.building is not None):
                return
            leaving = writes.derived if self.chained else writes.leaving
            plus, minus = self.crossing.part(self, plus, minus, leaving)
            if plus.n or minus.n:
                writes.gathered.setdefault(self.number, Gathered()).add(plus, minus)
            return
        self._hears(plus, minus, writes)
        self.take(reader, self.reduce.folded(reader, self.groups, plus, minus), writes)

    def fold_gathered(self, reader: Reader, writes: Writes) -> None:
        """Fold what was gathered, once all that it stands on have folded theirs."""
        own = writes.gathered.pop(self.number, None)
        if own is None:
            return
        if isinstance(self.reduce, ReduceNode):
            none = self.reduce.none() if not own.plus else None
            plus, minus = (none or Contributions.join(side) for side in (own.plus, own.minus))
            change = self.reduce.folded(reader, self.groups, plus, minus, own.deltas)
        else:
            if own.said:
                told = settled(self.reduce, reader, self.groups, own.said)
                own.add(told.plus, told.minus)
                if writes.before is not None and self.crossing is not None:
                    writes.before.append(self.crossing.sets(self, told.before, told.named))
            plus, minus = Contributions.join(own.plus), Contributions.join(own.minus)
            change = self.reduce.folded(reader, self.groups, plus, minus)
        self._hears(plus, minus, writes)
        self.take(reader, change, writes)

    def combined(self, plus: Contributions, minus: Contributions) -> Delta | None:
        """The same as one delta a group, where the view keeps nothing but exact totals."""
        reduce = self.reduce
        return reduce.combined(self.groups, plus, minus) if isinstance(reduce, ReduceNode) else None

    @property
    def crossing_fields(self) -> tuple[Path | None, ...]:
        """The columns of contributions that cross."""
        return (*self.reduce.fields, *((TS,) if self.stamped else ()))

    def _hears(self, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        watch = self.watch
        if watch is not None:
            writes.after.append(lambda: watch.told(self.groups, plus, minus))

    def advance_few(self, reader: Reader, plus: FewContributions, minus: FewContributions, writes: Writes) -> None:
        """The same of a handful of contributions."""
        change: Folded | None = None
        if isinstance(self.reduce, ReduceNode) and self.watch is None and self.crossing is None:
            change = self.reduce.folded_few(reader, self.groups, plus, minus)
        if change is not None:
            self.take(reader, change, writes)
            return
        fields = self.reduce.fields
        self.advance(reader, in_columns(plus, fields), in_columns(minus, fields), writes)

    def take(self, reader: Reader, change: Folded, writes: Writes) -> None:
        """Leave what a change writes, and pass it on to the views on this one."""
        change.stage(writes.during, writes.after)
        if not change.m:
            return
        writes.changed = True
        puts, deletes = change.rows()
        writes.put(self.reduce.db, puts, change.new_keys())
        if deletes:
            writes.deletes.append((self.reduce.db, deletes))
        if writes.feeding and self.building is None:
            writes.fed.append(change.fed(self.number))
        moved = change.newly_held()
        if moved:
            label = self.name if self.building is None else Building.label(self.name)
            writes.held_groups[label] = writes.held_groups.get(label, 0) + moved
        if self.children:
            deltas = self._deltas(change)
            for child in self.children:
                child.on_rows(reader, deltas, writes)

    def _deltas(self, change: Folded) -> list[RowDelta]:
        out: list[RowDelta] = []
        for place in range(change.m):
            had, old = change.result(place, before=True)
            has, new = change.result(place)
            if had and has and same_result(old, new):
                continue
            key, group = change.group(place)
            out.append(RowDelta(key, group, Row(group, old) if had else None, Row(group, new) if has else None))
        return out

    def on_rows(self, reader: Reader, deltas: list[RowDelta], writes: Writes) -> None:
        """Take the changes of the source's rows, of a view that is being built those of rows that it was told of."""
        if self.building is not None:
            deltas = self.building.told(deltas)
        if deltas:
            self.take_rows(reader, deltas, writes)

    def take_rows(self, reader: Reader, deltas: list[RowDelta], writes: Writes) -> None:
        """Take the changes of these rows of the source."""
        if isinstance(self.mapper, FieldMapper):
            self._by_fields(reader, self.mapper, deltas, writes)
        else:
            self._by_function(reader, self.mapper, deltas, writes)

    def _by_fields(self, reader: Reader, mapper: FieldMapper, deltas: list[RowDelta], writes: Writes) -> None:
        told = self.read_holds(reader, [d.key for d in deltas])
        who = _Who(deltas) if self.keeps else None
        new = [d for d in deltas if d.new is not None]
        derived = [d for d in deltas if d.old is not None and d.key not in told]
        rows = [*(d.new for d in new), *(d.old for d in derived)]
        both, at, stuck_at = self._of_rows(mapper, rows, _whose(who, [d.key for d in (*new, *derived)]))
        stuck = {new[i].key for i in stuck_at if i < len(new)}
        came = at < len(new)
        goes = ~came
        goes[goes] = np.array([d.key not in stuck for d in derived], bool)[at[goes] - len(new)]
        plus, parts = both.take(came), [both.take(goes)]
        again = {key: pairs for key, pairs in told.items() if key not in stuck}
        if again:
            parts.append(self.told_pairs(list(again.values()), _whose(who, list(again))))
        holds: list[tuple[bytes, bytes, Hold, Pairs]] = []
        for d in new:
            if d.key in stuck:
                pairs = told.get(d.key)
                if pairs is None:
                    pairs = [] if d.old is None else self.pairs_of(self._of_rows(mapper, [d.old])[0])
                holds.append((d.key, encode_key(d.group), mapper.hold(_document(d.new)), pairs))
        self.write_holds(holds, [key for key in told if key not in stuck], set(told), writes)
        self.advance(reader, plus, Contributions.join(parts), writes)

    def _of_rows(
        self, mapper: FieldMapper, rows: Sequence[Row | None], who: Who | None = None
    ) -> tuple[Contributions, NDArray[Any], list[int]]:
        """What rows contribute by fields, the indexes of those that do, and of those that can't be taken."""
        if self._decoder is None:
            self._decoder = self._make_decoder()
        columns = self._decoder.of_dicts([_document(row) for row in rows], keys=False)
        kept = mapper.kept(columns)
        take = np.ones(len(rows), bool) if kept is None else kept
        bad = mapper.bad(columns)
        stuck: list[int] = []
        if bad is not None:
            stuck = (bad & take).nonzero()[0].tolist()
            take = take & ~bad
        at = take.nonzero()[0]
        out = mapper.contributions(columns, at)
        return out if who is None else out.of(who[0], who[1][at]), at, stuck

    def _by_function(self, reader: Reader, mapper: FunctionMapper, deltas: list[RowDelta], writes: Writes) -> None:
        keys = [d.key for d in deltas]
        db = told_db(self.number)
        rows = reader.get_many(db, keys)
        told = {
            key: read_emissions(key, row, self._own, db) for key, row in zip(keys, rows, strict=True) if row is not None
        }
        held = self.read_holds(reader, keys)
        new = [d for d in deltas if d.new is not None]
        emissions, stuck_at = mapper.run([d.new for d in new], self._own)
        stuck = {new[i].key for i in stuck_at}
        going = [e for key, e in told.items() if key not in stuck]
        minus = Emissions.join(going) if going else Emissions.none(0)
        good = [(i, d) for i, d in enumerate(new) if d.key not in stuck]
        each = emissions.each(i for i, _ in good)
        puts = [(d.key, emissions_row(d.key, one, self._own)) for (_, d), one in zip(good, each, strict=True)]
        if puts:
            writes.puts.append((db, puts))
        ended = [d.key for d in deltas if d.new is None and d.key in told]
        if ended:
            writes.deletes.append((db, ended))
        holds = []
        for i, hold in stuck_at.items():
            pairs = told[new[i].key].pairs(0, self._own) if new[i].key in told else []
            holds.append((new[i].key, encode_key(new[i].group), hold, pairs))
        self.write_holds(holds, [key for key in held if key not in stuck], set(held), writes)
        who = _Who(deltas) if self.keeps else None
        plus = self.emitted(emissions, _whose(who, [d.key for d in new]))
        gone = [key for key in told if key not in stuck]
        self.advance(reader, plus, self.emitted(minus, _whose(who, gone)), writes)

    # -- what is held

    def read_holds(self, reader: Reader, keys: Sequence[bytes]) -> dict[bytes, Pairs]:
        """What the view was last told of those of these documents that it holds."""
        if not self.held:
            return {}
        db = held_db(self.number)
        rows = reader.get_many(db, keys)
        return {key: read_held(key, row, db)[2] for key, row in zip(keys, rows, strict=True) if row is not None}

    def write_holds(
        self,
        holds: Sequence[tuple[bytes, bytes, Hold, Pairs]],
        released: Sequence[bytes],
        before: set[bytes],
        writes: Writes,
    ) -> None:
        """Hold documents (stored key, whole key, why, what was told) and let others go; `before` were held."""
        db = held_db(self.number)
        if holds:
            writes.puts.append((db, [(key, held_row(key, whole, hold, told)) for key, whole, hold, told in holds]))
        if released:
            writes.deletes.append((db, list(released)))
        if self.rests:
            writes.deletes.append((resting_db(self.number), [*(key for key, *_ in holds), *released]))
        change = len({key for key, *_ in holds} - before) - len(released)
        if change:

            def count() -> None:
                self.held += change

            writes.after.append(count)


class _Who:
    """The groups of a source's rows that change, as the keys of those that contribute."""

    def __init__(self, deltas: Sequence[RowDelta]) -> None:
        self._keys = SourceKeys.of([d.group for d in deltas])
        self._places = {d.key: i for i, d in enumerate(deltas)}

    def of(self, keys: Sequence[bytes]) -> Who:
        """Those of these rows."""
        return self._keys, np.fromiter((self._places[key] for key in keys), np.int64, len(keys))


def _whose(who: _Who | None, keys: Sequence[bytes]) -> Who | None:
    """Those of these rows, where that is asked."""
    return None if who is None else who.of(keys)


def _document(row: Row | None) -> dict[str, Any]:
    """A row as a document that paths can be looked up in."""
    assert row is not None, "asked of rows that are there"
    return {"key": row.key, "value": row.value}
