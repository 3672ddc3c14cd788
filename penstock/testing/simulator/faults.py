"""Faults, and the counted places where one can strike.

A place is a moment in a run, such as a call of a transaction. Every simulated part reports each place that it passes.
`Points` counts them, and raises at the place that a test chose. So a run is repeatable: a fault at the same count
strikes at the same place. A fault strikes only if it is armed, and only once.

    place                              description
    begin, put, delete, clear          a call of a transaction; after `pub ` a call of the publisher
    commit before, commit after        the moment before a commit, and the moment after it, before the caller knows
    <name> before, at, after           a place that a test named
    send before, at, after             a change on its way downstream: not taken, taken without an answer, answered
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.cache import StoreFull

BEFORE, AT, AFTER = "before", "at", "after"


class Fault(Enum):
    """A kind of fault.

    >>> Fault.CRASH.ends_process, Fault.FAIL.ends_process
    (True, False)
    """

    CRASH = "the process is killed"
    POWER = "the power fails"
    FAIL = "the disk is full"
    INTERRUPT = "Ctrl-C"

    @property
    def ends_process(self) -> bool:
        """True if the process loses its memory."""
        return self in (Fault.CRASH, Fault.POWER)


class Crash(BaseException):
    """The end of the process or the machine. No code of the process may catch it, so it is no `Exception`."""

    def __init__(self, fault: Fault, place: str) -> None:
        super().__init__(f"{fault.value} at {place}")
        self.fault = fault
        self.place = place


class Interrupted(KeyboardInterrupt):
    """An interrupt by Ctrl-C. The process continues."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at the nth place after it is armed; 1 is the next. Only places whose name begins with `name` count."""

    fault: Fault
    nth: int
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.name!r}" if self.name else "place"
        return f"{self.fault.value} at {where} {self.nth} from here"


@dataclass(slots=True)
class Points:
    """The number of places passed, and the armed fault."""

    passed: int = 0
    names: list[str] | None = None  # a list gets the name of every place passed
    last: tuple[Fault, str] | None = None  # the fault that struck since the last arming
    _strike: Strike | None = None
    _left: int = 0

    def arm(self, strike: Strike | None) -> Strike | None:
        """Arm this fault, or none. Return the fault that was armed and has not struck."""
        before, self._strike = self._strike, strike
        self._left = 0 if strike is None else strike.nth
        self.last = self.last if strike is None else None
        return before

    @property
    def armed(self) -> bool:
        """True if a fault is armed."""
        return self._strike is not None

    def reach(self, place: str, may_fail: bool = False) -> None:
        """Count a place, and raise if the fault strikes there. With `may_fail`, the disk can be full there."""
        self.passed += 1
        if self.names is not None:
            self.names.append(place)
        strike = self._strike
        if strike is None or not place.startswith(strike.name) or (strike.fault is Fault.FAIL and not may_fail):
            return
        self._left -= 1
        if self._left > 0:
            return
        self._strike = None
        self.last = strike.fault, place
        if strike.fault is Fault.FAIL:
            raise StoreFull("memory", f"simulated, at {place}")
        if strike.fault is Fault.INTERRUPT:
            raise Interrupted(place)
        raise Crash(strike.fault, place)
