"""The part of the engine that people use of quarantine: listing, retrying, dropping."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cache import PenstockError, checked
from penstock.engine.calls.repair_calls import Repairs
from penstock.recovery import Quarantined, QuarantineKind, Releases, Releasing, Repair, Settled, Wanted, listed
from penstock.views import Progress

if TYPE_CHECKING:
    from penstock.core import Consistency, Snapshot

__all__ = ["Quarantining"]


class Quarantining(Repairs):
    """An engine that repairs, and has a quarantine."""

    @abstractmethod
    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """All views and tables at one position."""

    @checked
    def quarantine(
        self,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        *,
        ids: str | Sequence[str] | None = None,
        resting: bool = False,
    ) -> Iterator[Quarantined]:
        """What could not be taken, and is kept until it can: records, documents that views hold, groups that are held.

        All of it, or what is of a `kind` ("record", "document", "group"), a table, a view; `ids` names some. Documents
        that were dropped rest until their next version, and are listed with `resting`.

        for entry in engine.quarantine("record", table="users"):
            print(entry.id, entry.source, entry.place, entry.reason)
        """
        return self._listed(Wanted.of(ids, kind, table, view, limit, resting))

    def _listed(self, wanted: Wanted) -> Iterator[Quarantined]:
        with self.snapshot() as snap, snap.naming():
            yield from listed(snap, wanted)

    @checked
    def retry(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Settled:
        """Try again what is in quarantine: entries by their ids, or all of a kind, a table, a view; else everything.

        A record is taken from the bytes that were received, with its own ts; without one only if its key was not
        written since. A document is mapped as it is now, for the view that holds it. A group's reducer is tried again.
        The answer counts what was taken, and says of what stayed why. Others write meanwhile.

        engine.retry(view="namecount").released
        """
        return self._releasing(progress).retry(Wanted.of(ids, kind, table, view, limit))

    @checked
    def drop(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Settled:
        """Let go of entries by their ids, or of all of a kind, a table, a view.

        A record is forgotten. Of a document that a view holds, the view takes back what it was last told, and counts
        nothing of it until its next version. A group can't be dropped.

        engine.drop("r17").dropped
        """
        wanted = Wanted.of(ids, kind, table, view, limit)
        if wanted.everything:
            raise PenstockError("drop() needs to know what to let go of; give it ids, or kind=, table= or view=")
        return self._releasing(progress).drop(wanted)

    def _releasing(self, progress: Progress | None) -> Releases:
        self._writable()
        self.flush()
        return Releasing(self._core, self._lock, self._remake, progress)

    def _remake(self, view: str, groups: Sequence[bytes]) -> None:
        """Make these groups of a view from their contributions anew."""
        with self._turn:
            Repair(self._site(), None).view(view, groups)
