"""The report of a check of a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.recovery.repair_report import Repaired


@dataclass(frozen=True, slots=True)
class Checked:
    """The report of a check: its counts, the faults that it found, and the differences that are no faults.

    `wrong` has the groups whose rows or trees differ from their contributions: stored result → correct result. A check
    that fixes has repaired them. `anew` names the remembered emissions and table indexes that it restored from the
    documents. `damaged` names the damage that it can't repair, with the next step. `held` counts held documents and
    groups by view. `told` counts documents whose function would now yield another emission. Neither is a fault.

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
        """Return True if the check found no fault, or repaired every fault."""
        return not self.damaged and (self.fixed or not self.wrong)

    def __str__(self) -> str:
        parts = [_many(len(self.wrong), "group wrong", "groups wrong") + (" and repaired" if self.fixed else "")]
        parts = parts if self.wrong else []
        if self.anew:
            parts.append(f"{_many(len(self.anew), 'damaged row', 'damaged rows')} made anew")
        if self.damaged:
            parts.append(f"{len(self.damaged):,} damaged")
        text = ", ".join(parts) or "nothing is wrong"
        if self.held:
            text += f"; {_many(sum(self.held.values()), 'held', 'held')}"
        if self.told:
            text += f"; {sum(self.told.values()):,} with another emission now"
        return f"{_many(self.documents, 'document', 'documents')} and {_many(self.rows, 'row', 'rows')}: {text}"


def _many(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"
