"""Deliver productions and early sets between partitions of one process.

For partitions of any kind, wait until nothing is in flight. Invariant: an early set arrives after all earlier
productions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from penstock.cache import PenstockError
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.partitions.member import Member, MemberStatus
from penstock.recovery import EarlySet

__all__ = ["REFUSED", "at_rest", "delivered_productions", "join"]

REFUSED = 0.2
"""Seconds within which a refused production has been sent again."""
_AGAIN = 0.001  # seconds between two looks at whether all has arrived


def join(members: Sequence[Member]) -> None:
    """Let these members send early sets to each other."""
    for member in members:
        member.sends_early(_send_early_sets(member, members))


def _send_early_sets(member: Member, members: Sequence[Member]) -> Callable[[Mapping[int, EarlySet]], Collection[int]]:
    def tell(early: Mapping[int, EarlySet]) -> Collection[int]:
        reached: list[int] = []
        for other, one in early.items():
            with suppress(PenstockError):  # a receiver that fails gets a production later
                if other in member.unheard and one.parts and (news := member.news(other)) is not None:
                    members[other].hear(news)
                    member.knows(other, news)
                while (owed := member.owed(other)) is not None:
                    member.arrived(other, members[other].receive(owed))
                members[other].hear(one)
                reached.append(other)
        return reached

    return tell


def delivered_productions(members: Sequence[Member]) -> None:
    """Deliver all productions between members of one process; skip a receiver that fails, and raise its error last."""
    ways = [(member, other) for member in members for other in member.others]
    more, failed = True, dict[tuple[int, int], PenstockError]()
    while more:
        more = False
        for sender, other in ways:
            if (sender.partition, other) in failed:
                continue
            try:
                more = _deliver_first(sender, other, members) or more
            except PenstockError as error:
                failed[sender.partition, other] = error
    for why in failed.values():
        raise why


def _deliver_first(sender: Member, other: int, members: Sequence[Member]) -> bool:
    """Send a member the first messages that wait for it; return True if there were any."""
    news = sender.news(other)
    if news is not None:
        members[other].hear(news)
        sender.knows(other, news)
    owed = sender.owed(other)
    if owed is not None:
        sender.arrived(other, members[other].receive(owed))
    return news is not None or owed is not None


def at_rest(handles: Sequence[PartitionHandle], carry: Callable[[], None], patience: float) -> list[str]:
    """Wait until nothing is in flight, or only refused productions; return why these are refused.

    Two rounds of questions must get the same numbers, with no message stored. With refused productions, the numbers
    must stay the same for `patience` seconds.
    """
    before: list[MemberStatus] = []
    since = time.monotonic()
    while True:
        with suppress(PenstockError):  # the receiver's status tells why
            carry()
        now = [handle.standing() for handle in handles]
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
