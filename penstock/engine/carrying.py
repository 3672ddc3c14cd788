"""Waiting until partitions owe each other nothing, or until it is known that one of them can't take what it is owed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.cache import PenstockError
from penstock.engine.member import Member, Standing
from penstock.engine.seat import Seat

__all__ = ["REFUSED", "at_rest", "carried"]

REFUSED = 0.2
"""Seconds in which what was refused has been sent again."""
_AGAIN = 0.001  # seconds between two looks at whether all has arrived


def carried(members: Sequence[Member]) -> None:
    """All that members of one process owe each other is taken; who can't take it is passed over, and then said."""
    ways = [(member, other) for member in members for other in member.others]
    more, failed = True, dict[tuple[int, int], PenstockError]()
    while more:
        more = False
        for sender, other in ways:
            owed = None if (sender.here, other) in failed else sender.owed(other)
            if owed is not None:
                try:
                    sender.arrived(other, members[other].receive(owed))
                except PenstockError as error:
                    failed[sender.here, other] = error
                more = True
    for why in failed.values():
        raise why


def at_rest(seats: Sequence[Seat], carry: Callable[[], None], patience: float) -> list[str]:
    """Wait until nobody owes anybody anything, or nobody takes what is owed; by whom, and why.

    It is so where two rounds of asking give the same numbers, and nothing stored; or, for so many seconds, those of
    productions that were refused.
    """
    before: list[Standing] = []
    since = time.monotonic()
    while True:
        with suppress(PenstockError):  # it is told by who can't take it
            carry()
        now = [seat.standing() for seat in seats]
        if [(own.sent, own.taken) for own in now] != [(own.sent, own.taken) for own in before]:
            before, since = now, time.monotonic()
        elif not any(own.pending for own in now):
            return []
        elif any(own.refused for own in now) and time.monotonic() - since >= patience:
            return [
                f"partition {to} can't take what partition {of} owes it: {why}"
                for to, own in enumerate(now)
                for of, why in own.refused.items()
            ]
        if any(own.pending for own in now):
            time.sleep(_AGAIN)
