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
        """Commit records of this partition and the offsets after them, in one transaction and once per batch number.

        Return the counts of each batch, in the order of the tables. The transaction also saves the records of an atomic
        batch that the partitions in `others` own. They are sent afterwards.
        """
        ...

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> list[Counts]:
        """Return the counts that each batch would have, without storing its records."""
        ...

    def standing(self) -> MemberStatus:
        """Delete acknowledged productions, and return the status of the partition."""
        ...

    def marks(self) -> Marks:
        """Return the current numbers of productions."""
        ...

    def spout_state(self, source: str) -> bytes:
        """Return the spout state of a source, as its last batch left it."""
        ...

    def compact(self) -> dict[str, Any]:
        """Reclaim the space of old versions."""
        ...

    def repair(self, do: str, *what: Any) -> Any:
        """Perform a step of a repair, in plain data; "collect" begins to collect changes, "collected" returns them."""
        ...

    def build_step(self, limit: int | None, switch: Switch | None = None, of: str = "") -> BuildProgress:
        """Build about `limit` documents, or take a step of a switch; with neither, only return the progress."""
        ...

    def close(self) -> None:
        """Close the partition."""
        ...
