"""A view as a node: its map, its reducer, its groups, and its held rows.

The gateway drives the node of a view on a table, and remembers the contributions of each document. The node of a
chained view is driven by the changes of parent rows (`parent_rows`). Both use the same reducers. Invariants:

- A retraction uses exactly the contributions that the view remembers.
- A held row keeps its last contributions until a version of the document can be accepted.
- Memory changes only through `Writes.after`, which runs after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from penstock.cache import FEW, Reader
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import SourceKeys, encoded_key
from penstock.mapreduce.columns.value_columns import input_column
from penstock.mapreduce.contribution_sets import set_deltas
from penstock.mapreduce.decode.decoder import Decoder
from penstock.mapreduce.fold.accumulator_fold import ReduceNode, ViewChanges
from penstock.mapreduce.fold.group_deltas import Delta
from penstock.mapreduce.fold.row_format import RowCodec
from penstock.mapreduce.fold.small_fold import FewContributions, in_columns
from penstock.mapreduce.group_crossing import GroupCrossing, Part, TransactionContributions
from penstock.mapreduce.hidden_generation import HiddenGeneration
from penstock.mapreduce.maps.contribution_deltas import Who, deltas_of
from penstock.mapreduce.maps.emissions import Contributions, Emissions, Pairs
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces, keeps_contributions
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold
from penstock.mapreduce.maps.held_rows import held_row
from penstock.mapreduce.maps.last_contributions import RememberedRows
from penstock.mapreduce.parent_rows import RowDelta, change_by_fields, change_by_function, row_deltas
from penstock.mapreduce.pending_writes import Writes
from penstock.mapreduce.plain_index import IndexReduce
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.mapreduce.trees.tree_fold import TreeReduce
from penstock.mapreduce.view_databases import emissions_db, held_db, resting_db, rows_db
from penstock.views import TS, FieldMap, Join, Key, Path, Table, View


@lru_cache(maxsize=256)
def codec_of(view: View) -> RowCodec:
    """Return the codec of the rows of a view, the same at each opening."""
    return RowCodec(resolved(view.reducers), view.fields)


class Watch(Protocol):
    """A listener to the contributions of a view, called after the commit."""

    def committed(self, groups: Groups, plus: Contributions, minus: Contributions) -> None:
        """Receive the added and retracted contributions; codes are those of `groups`."""
        ...


class ViewNode:
    """The node of one view."""

    def __init__(self, view: View, number: int, spaces: Spaces | None, complete: bool, few: int = FEW) -> None:
        self.view = view
        self.name = view.name
        self.number = number
        self.children: list[ViewNode] = []
        codec = codec_of(view)
        self.mapper: FieldMapper | FunctionMapper
        self._spaces = spaces
        self._own = Groups()
        if isinstance(view.map, FieldMap):
            self.mapper = FieldMapper(view, view.map)
            fields = tuple(self.mapper.inputs)
            if spaces is None:
                self._spaces = Spaces()
        else:
            counted, joined = not (codec.cells or view.index), isinstance(view.source, Join)
            self.mapper = FunctionMapper(view.name, view.map.function, codec.cells, counted, joined)
            fields = (None,)
        self.reduce: ReduceNode | TreeReduce | IndexReduce
        if view.index:
            self.reduce = IndexReduce(rows_db(number), fields)
        elif keeps_contributions(view):
            self.reduce = TreeReduce(view.name, number, rows_db(number), codec, fields, few)
        else:
            self.reduce = ReduceNode(view.name, rows_db(number), codec, complete, few)
        self._decoder: Decoder | None = None  # of the rows of its parent view, if it has one
        self.held = 0
        self.rests = False  # some held documents may rest
        self.watch: Watch | None = None
        self.crossing: GroupCrossing | None = None  # set if other partitions own some of its groups
        self.building: HiddenGeneration | None = None  # set while readers do not see this generation
        self.drops_equal = False  # a contribution that is removed and added with the same values is no change

    @property
    def held_db(self) -> str:
        """Return the name of the database with its held documents or rows."""
        return held_db(self.number)

    @property
    def chained(self) -> bool:
        """Return True if the view is a view of a view."""
        return isinstance(self.view.source, View)

    @property
    def of_rows(self) -> bool:
        """Return True if the view is on rows of a view or a join, and not on documents of a table."""
        return not isinstance(self.view.source, Table)

    def _make_decoder(self) -> Decoder:
        return Decoder(FieldPlan.of(Key((), False), None, [self.view]), self._spaces or Spaces(), 0)

    @property
    def spaces(self) -> Spaces:
        """Return the dictionaries of the groups of a field view."""
        assert self._spaces is not None, "asked of field views"
        return self._spaces

    @property
    def groups(self) -> Groups:
        """Return the dictionary of its groups."""
        if isinstance(self.mapper, FieldMapper):
            return self.spaces.groups(self.mapper.fields.key)
        return self._own

    def nbytes(self, spaces: bool) -> int:
        """Estimate the bytes in use; with shared groups if `spaces`."""
        own = self._own.nbytes + (self._spaces.nbytes if spaces and self._spaces is not None else 0)
        return own + self.reduce.nbytes

    def forget(self, spaces: Spaces | None) -> None:
        """Drop the memory; `spaces` are those of its source."""
        self._own = Groups()
        self._spaces = Spaces() if spaces is None and isinstance(self.mapper, FieldMapper) else spaces
        self._decoder = None
        self.reduce.forget()

    # -- what it contributes

    @property
    def early(self) -> bool:
        """Return True if groups of other partitions may get early sets."""
        return self.view.production.early

    @property
    def keeps(self) -> bool:
        """Return True if the view keeps contributions, and so needs their sources."""
        return not isinstance(self.reduce, ReduceNode)

    @property
    def stamped(self) -> bool:
        """Return True if the view reads the ts of documents."""
        return isinstance(self.reduce, TreeReduce) and self.reduce.stamped

    def emitted(self, emissions: Emissions, who: Who | None = None) -> Contributions:
        """Return the contributions of these emissions of its function."""
        out = Contributions(emissions.code, emissions.inputs(self.reduce.fields))
        return out if who is None else out.of(*who, emissions.counts)

    def pair_contributions(self, pairs: Sequence[Pairs], who: Who | None = None) -> Contributions:
        """Return the contributions of these pairs. For a field view, a value is a list of inputs of cells."""
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
        """Return field contributions as pairs, one each."""
        groups = self.groups
        columns = [contributions.inputs[f].values() for f in self.reduce.fields]
        return [(groups.whole(code), [c[i] for c in columns]) for i, code in enumerate(contributions.code.tolist())]

    # -- changes

    def advance(self, reader: Reader, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        """Fold contributions and pass the changes to child views; with several partitions, gather them first."""
        if self.crossing is not None:
            if writes.planning and (not self.early or self.building is not None):
                return
            plus, minus = self.crossing.part(self, plus, minus, self.leaving(writes))
            if plus.n or minus.n:
                writes.gathered.setdefault(self.number, TransactionContributions()).add(plus, minus)
            return
        self._hears(plus, minus, writes)
        self.take(reader, self.reduce.folded(reader, self.groups, plus, minus), writes)

    def leaving(self, writes: Writes) -> dict[int, list[Part]]:
        """Return the parts for other partitions that a transaction makes of its changes."""
        return writes.derived if self.of_rows else writes.leaving

    def fold_gathered(self, reader: Reader, writes: Writes) -> None:
        """Fold the gathered contributions, after all parent views have folded theirs."""
        own = writes.gathered.pop(self.number, None)
        if own is None:
            return
        if isinstance(self.reduce, ReduceNode):
            none = self.reduce.none() if not own.plus else None
            plus, minus = (none or Contributions.join(side) for side in (own.plus, own.minus))
            change = self.reduce.folded(reader, self.groups, plus, minus, own.deltas)
        else:
            if own.sets:
                deltas = set_deltas(self.reduce, reader, self.groups, own.sets)
                own.add(deltas.plus, deltas.minus)
                if writes.before is not None and self.crossing is not None:
                    writes.before.append(self.crossing.sets(self, deltas.before, deltas.named))
            plus, minus = Contributions.join(own.plus), Contributions.join(own.minus)
            change = self.reduce.folded(reader, self.groups, plus, minus)
        self._hears(plus, minus, writes)
        self.take(reader, change, writes)

    def combined(self, plus: Contributions, minus: Contributions) -> Delta | None:
        """Combine contributions to one delta per group, if the view keeps only exact totals; else None."""
        reduce = self.reduce
        return reduce.combined(self.groups, plus, minus) if isinstance(reduce, ReduceNode) else None

    @property
    def crossing_fields(self) -> tuple[Path | None, ...]:
        """Return the columns of contributions for other partitions."""
        return (*self.reduce.fields, *((TS,) if self.stamped else ()))

    def _hears(self, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        watch = self.watch
        if watch is not None:
            writes.after.append(lambda: watch.committed(self.groups, plus, minus))

    def advance_small(self, reader: Reader, plus: FewContributions, minus: FewContributions, writes: Writes) -> None:
        """Fold a few contributions, like `advance`."""
        change: ViewChanges | None = None
        if isinstance(self.reduce, ReduceNode) and self.watch is None and self.crossing is None:
            change = self.reduce.folded_small(reader, self.groups, plus, minus)
        if change is not None:
            self.take(reader, change, writes)
            return
        fields = self.reduce.fields
        self.advance(reader, in_columns(plus, fields), in_columns(minus, fields), writes)

    def take(self, reader: Reader, change: ViewChanges, writes: Writes) -> None:
        """Write a change, and pass it to the child views."""
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
            label = self.name if self.building is None else HiddenGeneration.label(self.name)
            writes.held_groups[label] = writes.held_groups.get(label, 0) + moved
        if self.children:
            deltas = row_deltas(change)
            for child in self.children:
                child.on_rows(reader, deltas, writes)

    def on_rows(self, reader: Reader, deltas: list[RowDelta], writes: Writes) -> None:
        """Take the changes of parent rows; during a build, only of rows that the build has passed."""
        if self.building is not None:
            deltas = self.building.covered(deltas)
        if deltas:
            self.take_rows(reader, deltas, writes)

    def take_rows(self, reader: Reader, deltas: list[RowDelta], writes: Writes) -> None:
        """Take the changes of these parent rows."""
        held = self.read_holds(reader, [d.key for d in deltas])
        own = {i: held[d.key] for i, d in enumerate(deltas) if d.key in held}
        if isinstance(self.mapper, FieldMapper):
            if self._decoder is None:
                self._decoder = self._make_decoder()
            change = change_by_fields(self, self.mapper, self._decoder, deltas, own)
        else:
            change = change_by_function(self, self.mapper, reader, deltas, writes)
        moved = deltas_of(self, change, own, SourceKeys.of([d.group for d in deltas]) if self.keeps else None)
        holds = [(deltas[i].key, encoded_key(deltas[i].group), change.stuck[i], kept) for i, kept in moved.kept.items()]
        self.write_holds(holds, [deltas[i].key for i in moved.released], set(held), writes)
        self.advance(reader, moved.plus, moved.minus, writes)

    # -- what it remembers

    def remembered(self, reader: Reader, groups: Groups | None = None) -> RememberedRows:
        """Return the contributions that the view remembers; other `groups` leave its own dictionary as it is."""
        own = self.groups if groups is None else groups
        db = emissions_db(self.number) if isinstance(self.mapper, FunctionMapper) else None
        return RememberedRows(reader, own, held_db(self.number), db)

    def read_holds(self, reader: Reader, keys: Sequence[bytes]) -> dict[bytes, Pairs]:
        """Return the last contributions of those of these documents that the view holds."""
        if not self.held:
            return {}
        return {key: held.pairs for key, held in self.remembered(reader).held(keys).items()}

    def write_holds(
        self,
        holds: Sequence[tuple[bytes, bytes, Hold, Pairs]],
        released: Sequence[bytes],
        before: set[bytes],
        writes: Writes,
    ) -> None:
        """Hold documents (stored key, whole key, reason, contributions) and release others; `before` were held."""
        db = held_db(self.number)
        if holds:
            writes.puts.append((db, [(key, held_row(key, whole, hold, pairs)) for key, whole, hold, pairs in holds]))
        if released:
            writes.deletes.append((db, list(released)))
        if self.rests:
            writes.deletes.append((resting_db(self.number), [*(key for key, *_ in holds), *released]))
        change = len({key for key, *_ in holds} - before) - len(released)
        if change:

            def count() -> None:
                self.held += change

            writes.after.append(count)
