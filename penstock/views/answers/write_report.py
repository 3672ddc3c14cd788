"""Report a write: the numbers of applied, equal, late, held and rejected records, and the reasons for rejections.

Invariants: applied + equal + late + rejected is the number of records. `held` counts applied documents that at least
one view could not accept. `rejected` counts all rejections, and `rejections` keeps the first `KEPT` of them.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT = 100


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected record: its table, its key or place in the input, and the reason.

    >>> print(Rejection("users", "line 3", "no key: field 'id' is absent"))
    users, line 3: no key: field 'id' is absent
    """

    table: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.table}, {self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of records of one call by outcome. Counts can be added.

    >>> print(Counts(applied=1200, late=1) + Counts(applied=2, held=1))
    1,202 applied, 1 late; 1 held
    >>> print(Counts(rejected=1, rejections=(Rejection("users", "line 3", "not JSON"),)))
    1 rejected (users, line 3: not JSON)
    """

    applied: int = 0
    equal: int = 0
    late: int = 0
    held: int = 0
    rejected: int = 0
    rejections: tuple[Rejection, ...] = ()

    @property
    def records(self) -> int:
        """The number of all records of the call."""
        return self.applied + self.equal + self.late + self.rejected

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.applied + other.applied,
            self.equal + other.equal,
            self.late + other.late,
            self.held + other.held,
            self.rejected + other.rejected,
            (self.rejections + other.rejections)[:KEPT],
        )

    def __str__(self) -> str:
        if not self.records:
            return "no records"
        named = {"applied": self.applied, "equal": self.equal, "late": self.late, "rejected": self.rejected}
        text = ", ".join(f"{n:,} {name}" for name, n in named.items() if n)
        if self.rejections:
            more = ", …" if self.rejected > 1 else ""
            text += f" ({self.rejections[0]}{more})"
        return f"{text}; {self.held:,} held" if self.held else text
