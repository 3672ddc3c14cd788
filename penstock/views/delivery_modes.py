"""The delivery modes of a view: contributions for other partitions are saved before they are sent, or sent first.

A view that sends first stores its contributions, so that a receiver can restore the old ones. It must be on a table,
because a spout or caller keeps a batch of a table until it is saved.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from penstock.cache import DefinitionError, key_text

__all__ = ["DeliveryMode", "ProductionName", "check_production"]

ProductionName = Literal["strong", "weak", "auto"]


class DeliveryMode(Enum):
    """The delivery mode. Strong saves before it sends, weak sends before it saves, auto is weak unless an ack is late.

    >>> DeliveryMode("weak").early, DeliveryMode.STRONG.early
    (True, False)
    """

    STRONG = "strong"
    WEAK = "weak"
    AUTO = "auto"

    @property
    def early(self) -> bool:
        """True if contributions may be sent before they are saved."""
        return self is not DeliveryMode.STRONG


def check_production(view: str, given: ProductionName | DeliveryMode, on: str | None) -> DeliveryMode:
    """Check and return a view's delivery mode. Raise DefinitionError if the view can't use it.

    `on` names the source if that is no table.

    >>> check_production("names", "weak", None)
    <DeliveryMode.WEAK: 'weak'>
    """
    try:
        production = DeliveryMode(given if isinstance(given, str | DeliveryMode) else None)
    except ValueError:
        raise DefinitionError(
            f"production= of view {view!r} is {key_text(given)}; write 'strong' (saved before it is sent), "
            "'weak' (sent before it is saved) or 'auto' (weak, until that takes too long)"
        ) from None
    if production.early and on is not None:
        raise DefinitionError(
            f"view {view!r} can't have production={production.value!r}: it is on {on}, whose rows nobody "
            "waits for; leave production= out here, and give it to views on tables"
        )
    return production
