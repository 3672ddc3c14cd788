"""The publisher of changes of views, keyed by group, and the downstream system that receives them.

Downstream keeps the last value of each group, which must be correct at the end. The publisher finds changes: it
compares a snapshot with the last answered values. A changes feed could replace `_changed` and leave the rest as it is.

The publisher may be stopped anywhere. Downstream may refuse a change, take it without an answer, or take it late, so
that an old change arrives after others. Three rules make the end correct. If one is removed, a seed finds the error:

- A group is stored as pending before its change is sent. A pending group is sent even if its value equals the last
  answered one, since downstream may have taken another value since then.
- A group stays pending until an answer arrives. One commit stores the answered value and removes the pending mark.
- A change carries the position of its snapshot. Downstream takes no older position after a newer one.
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
    """The way in which downstream answers."""

    UP = "takes and answers"
    DOWN = "refuses"
    DEAF = "takes, and its answers are lost"
    SLOW = "takes later, and its answers are lost"


class Unanswered(Exception):
    """No answer arrived. Downstream may have taken the change or not."""


@dataclass(frozen=True, slots=True)
class Message:
    """A change: the value of a view's group at a position. If `present` is false, the group has no row."""

    view: str
    key: bytes
    group: Any
    present: bool
    value: Any
    position: int


class Downstream:
    """The last value of each group, with its position."""

    def __init__(self) -> None:
        self.link = Link.UP
        self.last: dict[tuple[str, bytes], Message] = {}
        self.late: list[Message] = []

    def send(self, message: Message, points: Points, name: str) -> None:
        """Send a change. Return if it is answered, else raise Unanswered."""
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
        """Deliver some late changes, in any order. Without `most`, deliver all."""
        for _ in range(len(self.late) if most is None else min(most, len(self.late))):
            self._take(self.late.pop(choose.randrange(len(self.late))))

    def rows(self, view: str) -> dict[bytes, tuple[Any, Any]]:
        """Return the groups of a view with their values."""
        return self.views().get(view, {})

    def views(self) -> dict[str, dict[bytes, tuple[Any, Any]]]:
        """Return the groups with their values, by view."""
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


class ViewRows(Protocol):
    """A view in a snapshot."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield groups and results."""
        ...


class Snap(Protocol):
    """The parts of a snapshot that the publisher reads."""

    @property
    def position(self) -> int:
        """The store's commit number."""
        ...

    def view(self, name: str, /) -> ViewRows:
        """Return a view."""
        ...


class Pub:
    """The publisher, with its state in a store of its own."""

    def __init__(self, store: Store, downstream: Downstream, points: Points) -> None:
        self.named: Mapping[Name, str] = {}  # names of places, by (view, group)
        self._store = store
        self._downstream = downstream
        self._points = points
        with store.read() as reader:
            self._last_answers: dict[bytes, bytes] = dict(reader.scan(_SAID))
            self.pending: dict[bytes, bytes] = dict(reader.scan(_PENDING))

    def poll(self, snap: Snap, views: Collection[str]) -> int:
        """Publish changed groups, and the removal of views that are gone. Return the number of changes.

        A group has changed if its value differs from the last answered one. Pending groups count too.
        """
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
        answers = {name: pack([m.group, m.value]) for name, m in answered.items() if m.present}
        gone = [name for name, m in answered.items() if not m.present]
        with self._store.write() as writer:
            writer.put_many(_SAID, sorted(answers.items()))
            writer.delete_many(_SAID, sorted(gone))
            writer.delete_many(_PENDING, sorted(answered))
        for name in gone:
            self._last_answers.pop(name, None)
        self._last_answers |= answers
        for name in answered:
            del self.pending[name]

    def _changed(self, snap: Snap, views: Collection[str]) -> Iterator[tuple[bytes, Message]]:
        """Yield the changes to send: groups whose value is not the last answered one, and all pending groups."""
        position = snap.position
        before = {name.partition(b"\0")[0].decode() for name in (*self._last_answers, *self.pending)}
        for view in (*views, *sorted(before.difference(views))):
            head = view.encode() + b"\0"
            present: set[bytes] = set()
            for group, value in snap.view(view).items() if view in views else ():
                key = stored_key(encode_key(group))
                name = head + key
                present.add(name)
                last = self._last_answers.get(name)
                if name in self.pending or last is None or canonical(unpack(last)[1]) != canonical(value):
                    yield name, Message(view, key, group, True, value, position)
            for name in sorted({n for n in (*self._last_answers, *self.pending) if n.startswith(head)} - present):
                last = self._last_answers.get(name)
                group = unpack(self.pending[name])[2] if last is None else unpack(last)[0]
                yield name, Message(view, name[len(head) :], _tupled(group), False, None, position)


def _tupled(group: Any) -> Any:
    """Return a group with tuples instead of lists, as it was before it was packed."""
    return tuple(map(_tupled, group)) if isinstance(group, list) else group
