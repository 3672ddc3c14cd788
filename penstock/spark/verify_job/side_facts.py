"""Facts about the entries of side indexes, from the documents and from the index.

A key side has no index, and no facts.
A group is an entry here: its condition value and the key of its document. Its result is the projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import canonical, decode_key, encode_entry, encode_key
from penstock.engine import Snapshot
from penstock.recovery import JoinEntry, at
from penstock.spark.verify_job.group_facts import Fact, Facts
from penstock.spark.verify_job.remap_task import VerifyJob, copy_parts
from penstock.views import FieldMap, Join, SideView, key_of_group, side_views

__all__ = ["IndexTask", "given_entries", "sides_by_name"]


def sides_by_name(joins: Iterable[Join]) -> dict[str, SideView]:
    """Return the sides of these joins with compared indexes, by the names of the indexes."""
    return {side.name: side for join in joins for side in _compared_sides(join)}


def _compared_sides(join: Join) -> list[SideView]:
    """Return the sides with compared indexes: their entries are documents, and no rows of prefixes."""
    return [side for stage in join.stages for side in side_views(stage) if not side.covers]


def given_entries(join: Join, step: int, inputs: Mapping[bool, Sequence[JoinEntry]], facts: Facts) -> Iterator[Any]:
    """Add the entries of the sides that a step reads. Yield what must be sent."""
    first, steps = join.steps()
    own = {True: join.sides[steps[step].side].name, False: join.sides[first].name if not step else None}
    for view in _compared_sides(join):
        for new, name in own.items():
            if view.side != name or view.by_key:
                continue
            assert isinstance(view.map, FieldMap), "a side has no function"
            for entry in inputs[new]:
                document, key = entry.row[view.side], entry.keys[view.side]
                key = key_of_group(key) if view.nests_null else key
                value = tuple(at(document, path) for path in view.map.key.paths)
                if all(part is not None for part in value):
                    group = encode_entry((value[0] if view.map.key.single else value, key))
                    shown = canonical([at(document, path) for path in view.projection])
                    facts.add(view.name, group, Fact.GIVEN, encode_key(key), 0, shown, None)
                if facts.full:
                    yield from facts.blobs()


@dataclass(frozen=True, slots=True)
class IndexTask:
    """The task that turns the entries of side indexes into facts. A part names the index."""

    work: VerifyJob

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the facts."""
        facts = Facts(self.work.parts, self.work.groups)
        for snap, part in copy_parts(self.work, batches):
            yield from _entries(snap, part.name, facts)
        yield from facts.last()


def _entries(snap: Snapshot, name: str, facts: Facts) -> Iterator[Any]:
    join, _, side = name.rpartition(":")  # the name of a prefix has a colon too
    stored = snap.schema.join(join)
    own = next(own for own in stored.sides if own.view.side == side)
    for entries in () if own.index is None else own.index.all(snap.reader()):
        for value, key, fields in entries.listed():
            group = encode_entry((None if value is None else decode_key(value), decode_key(key)))
            facts.add(name, group, Fact.SHOWN, canonical(fields), 1)
        if facts.full:
            yield from facts.blobs()
