"""A node in the place of a view that collects the contributions to it."""

from __future__ import annotations

from penstock.cache import Reader
from penstock.mapreduce import Contributions, FewContributions, Spaces, ViewNode, Writes, in_columns
from penstock.views import View

__all__ = ["ContributionCollector"]


class ContributionCollector(ViewNode):
    """A node that collects the contributions to one view. Other tasks compute the view's rows."""

    def __init__(self, view: View, number: int, spaces: Spaces | None) -> None:
        super().__init__(view, number, spaces, True)
        self._parts: list[Contributions] = []

    def advance(self, reader: Reader, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        """Collect the contributions. A new store has none to retract."""
        assert not minus.n, "a new store has no contribution to retract"
        if plus.n:
            self._parts.append(plus)

    def advance_small(self, reader: Reader, plus: FewContributions, minus: FewContributions, writes: Writes) -> None:
        """Collect a few contributions."""
        fields = self.reduce.fields
        self.advance(reader, in_columns(plus, fields), in_columns(minus, fields), writes)

    def heard(self) -> Contributions | None:
        """Return all contributions collected so far, and clear them."""
        parts, self._parts = self._parts, []
        assert len(parts) < 2, "a bucket, or a range of groups, is one batch"
        return parts[0] if parts else None
