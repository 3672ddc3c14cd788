"""The node that publishes a view's changes, keyed by group, and what it publishes to.

Downstream keeps the last value of each group, and that is what has to be right in the end. The node finds changes by
comparing a snapshot with what it said last; a changes feed can take the place of `_changed` without touching the rest.
It may be stopped anywhere, and downstream may refuse, take without an answer, or be slow, so that what was said once
arrives late. Three rules make the end right (drop one, and a seed finds it):

- a group is pending, durably, before its change is sent: once something may have been said, an equal value is no
  reason for silence, since what is equal to the answer before may differ from what was taken since;
- it stays pending until an answer comes, and what was answered is remembered with the end of pending, in one commit;
- a change carries the position of its snapshot, and downstream takes no older one after a newer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Protocol

from penstock.cache import Store, canonical, encode_key, pack, stored_key, unpack
from penstock.testing.simulator.faults import AFTER, AT, BEFORE, Points

_SAID, _PENDING = "said", "pending"
Name = tuple[str, Any]


class Link(Enum):
    """How downstream answers."""

    UP = "takes and answers"
    DOWN = "refuses"
    DEAF = "takes, and its answers are lost"
    SLOW = "takes later, and its answers are lost"


class Unanswered(Exception):
    """No answer came: whether it was taken is not known."""


@dataclass(frozen=True, slots=True)
class Message:
    """A change: this group of this view has this value at this position; `present` unless it has no row."""

    view: str
    key: bytes
    group: Any
    present: bool
    value: Any
    position: int


class Downstream:
    """The last value of each group, as of its position."""

    def __init__(self) -> None:
        self.link = Link.UP
        self.last: dict[tuple[str, bytes], Message] = {}
        self.late: list[Message] = []

    def send(self, message: Message, points: Points, name: str) -> None:
        """Offer a change; returns where it is answered."""
        points.reach(f"{name} {BEFORE}")
        if self.link is Link.DOWN:
            raise Unanswered
        if self.link is Link.SLOW:
            self.late.append(message)
        else:
            self._take(message)
        points.reach(f"{name} {AT}")
        if self.link is not Link.UP:
            raise Unanswered
        points.reach(f"{name} {AFTER}")

    def arrive(self, choose: Random, most: int | None = None) -> None:
        """Some of what is late arrives, in any order; all of it without `most`."""
        for _ in range(len(self.late) if most is None else min(most, len(self.late))):
            self._take(self.late.pop(choose.randrange(len(self.late))))

    def rows(self, view: str) -> dict[bytes, tuple[Any, Any]]:
        """What it holds of a view."""
        return self.views().get(view, {})

    def views(self) -> dict[str, dict[bytes, tuple[Any, Any]]]:
        """What it holds, by view."""
        out: dict[str, dict[bytes, tuple[Any, Any]]] = {}
        for message in self.last.values():
            if message.present:
                out.setdefault(message.view, {})[message.key] = message.group, message.value
        return out

    def _take(self, message: Message) -> None:
        where = message.view, message.key
        known = self.last.get(where)
        if known is None or known.position <= message.position:
            self.last[where] = message


class Rows(Protocol):
    """A view in a snapshot."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Groups and results."""
        ...


class Snap(Protocol):
    """What is read of a snapshot."""

    @property
    def position(self) -> int:
        """The store's commit number."""
        ...

    def view(self, name: str, /) -> Rows:
        """A view."""
        ...


class Pub:
    """The node, with what it remembers in a store of its own."""

    def __init__(self, store: Store, downstream: Downstream, points: Points) -> None:
        self.named: Mapping[Name, str] = {}  # places of their own, by (view, group)
        self._store = store
        self._downstream = downstream
        self._points = points
        with store.read() as reader:
            self._said: dict[bytes, bytes] = dict(reader.scan(_SAID))
            self.pending: dict[bytes, bytes] = dict(reader.scan(_PENDING))

    def poll(self, snap: Snap, views: Collection[str]) -> int:
        """Publish what differs in these views from what was said last, and that others are gone; how many were sent."""
        changes = dict(self._changed(snap, views))
        fresh = {name: pack([m.view, m.key, m.group]) for name, m in changes.items() if name not in self.pending}
        if fresh:
            with self._store.write() as writer:
                writer.put_many(_PENDING, sorted(fresh.items()))
            self.pending |= fresh
        answered: list[bytes] = []
        try:
            for name, message in changes.items():
                self._downstream.send(message, self._points, self.named.get((message.view, message.group), "send"))
                answered.append(name)
        except Unanswered:
            pass  # this one and those after it stay pending
        if answered:
            self._settle({name: changes[name] for name in answered})
        return len(changes)

    def _settle(self, answered: Mapping[bytes, Message]) -> None:
        said = {name: pack([m.group, m.value]) for name, m in answered.items() if m.present}
        gone = [name for name, m in answered.items() if not m.present]
        with self._store.write() as writer:
            writer.put_many(_SAID, sorted(said.items()))
            writer.delete_many(_SAID, sorted(gone))
            writer.delete_many(_PENDING, sorted(answered))
        for name in gone:
            self._said.pop(name, None)
        self._said |= said
        for name in answered:
            del self.pending[name]

    def _changed(self, snap: Snap, views: Collection[str]) -> Iterator[tuple[bytes, Message]]:
        """What must be sent: groups whose value is not the one that was answered last, and all that is pending."""
        position = snap.position
        before = {name.partition(b"\0")[0].decode() for name in (*self._said, *self.pending)}
        for view in (*views, *sorted(before.difference(views))):
            head = view.encode() + b"\0"
            there: set[bytes] = set()
            for group, value in snap.view(view).items() if view in views else ():
                key = stored_key(encode_key(group))
                name = head + key
                there.add(name)
                said = self._said.get(name)
                if name in self.pending or said is None or canonical(unpack(said)[1]) != canonical(value):
                    yield name, Message(view, key, group, True, value, position)
            for name in sorted({n for n in (*self._said, *self.pending) if n.startswith(head)} - there):
                group = unpack(self._said[name])[0] if name in self._said else unpack(self.pending[name])[2]
                yield name, Message(view, name[len(head) :], _tupled(group), False, None, position)


def _tupled(group: Any) -> Any:
    """A group as it was before it was packed."""
    return tuple(map(_tupled, group)) if isinstance(group, list) else group
