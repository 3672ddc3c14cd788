"""The handle of a partition: the calls that a partitioned store makes to each partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.core import Resume
from penstock.generations import BuildProgress, Switch
from penstock.partitions.member import Marks, MemberStatus, Tables
from penstock.views import Counts

__all__ = ["PartitionHandle"]


class PartitionHandle(Protocol):
    """One partition, in this process, in a process of its own, or in the simulator."""

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
        others: Mapping[int, Tables] | None = None,
    ) -> list[Counts]:
        """One transaction of records that it owns, and the offsets after them; one with this number once only.

        The answer has the counts of each batch, in the order of the tables. The records of an atomic batch that
        `others` own are saved in it, and sent to them.
        """
        ...

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> Counts:
        """How these records would fare."""
        ...

    def standing(self) -> MemberStatus:
        """How far it is; what has arrived is deleted first."""
        ...

    def marks(self) -> Marks:
        """The numbers of productions as they are now."""
        ...

    def note(self, source: str) -> bytes:
        """What the spout of a source noted with its last batch."""
        ...

    def compact(self) -> dict[str, Any]:
        """Give back what old versions take."""
        ...

    def repair(self, do: str, *what: Any) -> Any:
        """A step of a repair, in plain data; "note" and "noted" go about what it changes here and elsewhere."""
        ...

    def swept(self, limit: int | None, switch: Switch | None = None) -> BuildProgress:
        """One step of building views, of about so many documents, or of the switch; with neither a look."""
        ...

    def close(self) -> None:
        """Close the partition."""
        ...
