"""What a check of a store says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.recovery.repair_report import Repaired


@dataclass(frozen=True, slots=True)
class Checked:
    """The report of a check: what was read, what is wrong, and what is only counted.

    `wrong` are groups whose rows or trees are not what documents contribute: shown → what it should be, repaired where
    the check was to fix. `anew` are damaged rows of what views remember, and indexes of tables, which it then made anew
    from the documents; `damaged` is what it doesn't mend, with what to do. `held` counts by view the documents and
    groups that it can't take, `told` the documents that its function would not yield again what is remembered of them:
    neither is wrong.

    >>> report = Checked(rows=12, documents=5)
    >>> report.ok, str(report)
    (True, '5 documents and 12 rows: nothing is wrong')
    """

    rows: int = 0
    documents: int = 0
    wrong: tuple[Repaired, ...] = ()
    damaged: tuple[str, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    told: Mapping[str, int] = field(default_factory=dict)
    fixed: bool = False
    anew: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, or nothing is any more."""
        return not self.damaged and (self.fixed or not self.wrong)

    def __str__(self) -> str:
        parts = [_many(len(self.wrong), "group wrong", "groups wrong") + (" and repaired" if self.fixed else "")]
        parts = parts if self.wrong else []
        if self.anew:
            parts.append(f"{_many(len(self.anew), 'damaged row', 'damaged rows')} made anew")
        if self.damaged:
            parts.append(f"{len(self.damaged):,} damaged")
        said = ", ".join(parts) or "nothing is wrong"
        if self.held:
            said += f"; {_many(sum(self.held.values()), 'held', 'held')}"
        if self.told:
            said += f"; {_many(sum(self.told.values()), 'told otherwise', 'told otherwise')}"
        return f"{_many(self.documents, 'document', 'documents')} and {_many(self.rows, 'row', 'rows')}: {said}"


def _many(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"
