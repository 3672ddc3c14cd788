"""Documents whose function would now yield another emission than the remembered one."""

from __future__ import annotations

from typing import Any

from penstock.recovery.repair.fresh_map import FreshMap, same_pairs

__all__ = ["differing"]


def differing(mapping: FreshMap, docs: list[Any], remembered: list[Any], unsure: set[bytes]) -> int:
    """Count documents that would now yield another emission, and add their groups to `unsure`.

    The groups of documents whose map fails are added too; these documents count as held.
    """
    n = 0
    for own, was in zip(mapping.pairs(docs), remembered, strict=True):
        if own is None or not same_pairs(own, was):
            unsure.update(group for group, _ in (*(own or ()), *was))
            n += own is not None
    return n
