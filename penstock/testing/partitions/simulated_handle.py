"""The handle of a simulated partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from penstock.engine import BuildProgress, Marks, Member, MemberStatus, Resume, Switch, Tables
from penstock.views import Counts

_T = TypeVar("_T")


class Serves(Protocol):
    """A server of simulated partitions. It starts a partition again when its process ends."""

    def done(self, i: int, work: Callable[[Member], _T]) -> _T:
        """Let a partition do a piece of work."""
        ...

    def give(self, i: int, number: int) -> None:
        """Note that a partition is given the batch with this number."""
        ...

    def landed(self, i: int) -> None:
        """Note that a partition saved the batch that it was given."""
        ...

    def standing(self, i: int) -> MemberStatus:
        """Return the progress of a partition."""
        ...


class SimulatedHandle:
    """The handle of a partition. If the partition ends, it is started again, and the call is repeated."""

    def __init__(self, world: Serves, i: int) -> None:
        self._world = world
        self._i = i

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
        others: Mapping[int, Tables] | None = None,
    ) -> list[Counts]:
        """Take records that the partition owns, and the offsets after them, in one transaction."""
        world, i = self._world, self._i
        world.give(i, number)
        counts = world.done(i, lambda member: member.take(tables, sources, number, kinds, strict, others))
        world.landed(i)
        return counts

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> list[Counts]:
        """Return the counts that a put of each batch would return. Put nothing."""
        return self._world.done(self._i, lambda member: member.tried(tables, kinds))

    def standing(self) -> MemberStatus:
        """Return the progress of the partition."""
        return self._world.standing(self._i)

    def marks(self) -> Marks:
        """Return the current numbers of productions."""
        return self._world.done(self._i, Member.marks)

    def spout_state(self, source: str) -> bytes:
        """Return the spout state of a source partition."""
        return self._world.done(self._i, lambda member: member.spout_state(source))

    def build_step(self, limit: int | None, switch: Switch | None = None, of: str = "") -> BuildProgress:
        """Run one step of building views."""
        return self._world.done(self._i, lambda member: member.build_step(limit, switch, of))

    def compact(self) -> dict[str, object]:
        """Free the space of old versions."""
        return self._world.done(self._i, Member.compact)

    def repair(self, do: str, *what: object) -> object:
        """Run one step of a repair."""
        return self._world.done(self._i, lambda member: member.repair(do, *what))

    def close(self) -> None:
        """Do nothing: the disk stays."""
