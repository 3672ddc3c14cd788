"""Faults, and the counted places where one can strike.

Every simulated part says each place that it passes; `Points` counts them, and at the one that was asked for it raises.
So a run is a function of what was asked for: the same fault at the same count strikes at the same place again. Nothing
strikes unless it is armed, and what is armed strikes once.

    place                              what it is
    begin, put, delete, clear          a call of a transaction; after `pub ` one of the node that publishes
    commit before, commit after        the moment before a commit, and the one after it, before the caller knows
    <name> before, at, after           a place that a test named
    send before, at, after             a change on its way downstream: not taken, taken without an answer, answered
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.cache import StoreFull

BEFORE, AT, AFTER = "before", "at", "after"


class Fault(Enum):
    """What happens.

    >>> Fault.CRASH.ends_process, Fault.FAIL.ends_process
    (True, False)
    """

    CRASH = "the process is killed"
    POWER = "the power fails"
    FAIL = "the disk is full"
    INTERRUPT = "Ctrl-C"

    @property
    def ends_process(self) -> bool:
        """Whether all memory is lost with it."""
        return self in (Fault.CRASH, Fault.POWER)


class Crash(BaseException):
    """The process, or the machine, is gone. No code of the process may catch it, so it is no `Exception`."""

    def __init__(self, fault: Fault, place: str) -> None:
        super().__init__(f"{fault.value} at {place}")
        self.fault = fault
        self.place = place


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, where the process goes on."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at the nth place from where it is armed on, 1 being the next; of those whose name begins with `name`."""

    fault: Fault
    nth: int
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.name!r}" if self.name else "place"
        return f"{self.fault.value} at {where} {self.nth} from here"


@dataclass(slots=True)
class Points:
    """The places passed, and the fault that waits."""

    passed: int = 0
    names: list[str] | None = None  # where it is a list, the name of every place passed is added to it
    last: tuple[Fault, str] | None = None  # what struck since the last one was armed
    _strike: Strike | None = None
    _left: int = 0

    def arm(self, strike: Strike | None) -> Strike | None:
        """Let this strike; None disarms. The answer is what was armed and has not struck."""
        before, self._strike = self._strike, strike
        self._left = 0 if strike is None else strike.nth
        self.last = self.last if strike is None else None
        return before

    @property
    def armed(self) -> bool:
        """Whether a fault waits."""
        return self._strike is not None

    def reach(self, place: str, may_fail: bool = False) -> None:
        """Say that a place is passed; raises where the fault strikes. `may_fail`: the disk can be full here."""
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
