"""How what a view owes groups of other partitions goes there: kept until it has arrived, or told before it is kept.

A view that is told early keeps contributions, so that what it was told can be taken back, and is on a table, whose
batches somebody holds until they are in.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from penstock.cache import DefinitionError, shown_key

__all__ = ["Production", "ProductionName", "check_production"]

ProductionName = Literal["strong", "weak", "auto"]


class Production(Enum):
    """Saved before it is sent; sent before it is saved; or so where that is quick.

    >>> Production("weak").early, Production.STRONG.early
    (True, False)
    """

    STRONG = "strong"
    WEAK = "weak"
    AUTO = "auto"

    @property
    def early(self) -> bool:
        """Whether it may be told before it is saved."""
        return self is not Production.STRONG


def check_production(view: str, given: ProductionName | Production, source: str, chained: bool) -> Production:
    """The production that was written for a view; DefinitionError where the view can't be told so.

    >>> check_production("names", "weak", "users", chained=False)
    <Production.WEAK: 'weak'>
    """
    try:
        production = Production(given if isinstance(given, str | Production) else None)
    except ValueError:
        raise DefinitionError(
            f"production= of view {view!r} is {shown_key(given)}; write 'strong' (saved before it is sent), "
            "'weak' (sent before it is saved) or 'auto' (weak, until that takes too long)"
        ) from None
    if production.early and chained:
        raise DefinitionError(
            f"view {view!r} can't have production={production.value!r}: it is on view {source!r}, whose rows nobody "
            "waits for; leave production= out here, and give it to views on tables"
        )
    return production
