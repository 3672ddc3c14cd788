"""Find the smallest run that still fails.

Steps, faults, records and fields are left out as long as the same check fails. The remaining run explains itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from penstock.cache import Limits
from penstock.spout import Record
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.fault_plan import BuildViews, Deliver, Plan, Step, Write
from penstock.testing.simulator.run import Failure

_T = TypeVar("_T")
Fails = Callable[[Plan], Failure | None]
MOST = 600


class FailedRun(Protocol):
    """A run that failed: its plan, and its findings."""

    plan: Any
    wrong: Wrong


_F = TypeVar("_F", bound=FailedRun)


def shrunk(failure: Failure, fails: Fails, most: int = MOST) -> Failure:
    """Return a failure of the same check by a smaller plan, after at most `most` runs."""
    return descended(failure, fails, _smaller, most)


def descended(
    failure: _F, fails: Callable[[Any], _F | None], smaller: Callable[[Any], Iterable[Any]], most: int = MOST
) -> _F:
    """Return a failure of the same check by the smallest plan that was reached in at most `most` runs."""
    best, left, going = failure, most, True
    check = failure.wrong.first.check
    while going:
        going = False
        for candidate in smaller(best.plan):
            if not left:
                return best
            left -= 1
            found = fails(candidate)
            if found is not None and found.wrong.first.check == check:
                best, going = found, True
                break
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    for candidate in _candidates(plan):
        if candidate.size < plan.size or _settings(candidate) != _settings(plan):
            yield candidate


def _settings(plan: Plan) -> tuple[Limits, bool]:
    return plan.limits, plan.small_trees


def _candidates(plan: Plan) -> Iterator[Plan]:
    """Yield slightly smaller plans, the largest cuts first."""
    for steps in cuts(plan.steps):
        yield replace(plan, steps=steps)
    for at, log in enumerate(plan.partitions):
        for records in cuts(log):
            numbered = tuple(replace(record, offset=i) for i, record in enumerate(records))
            yield replace(plan, partitions=_with(plan.partitions, at, numbered))
    for at, step in enumerate(plan.steps):
        for simpler in _simpler(step):
            yield replace(plan, steps=_with(plan.steps, at, simpler))
    for at, log in enumerate(plan.partitions):
        for place, record in enumerate(log):
            for plain in _plainer(record):
                yield replace(plan, partitions=_with(plan.partitions, at, _with(log, place, plain)))
    if plan.limits != Limits():
        yield replace(plan, limits=Limits())
    if plan.small_trees:
        yield replace(plan, small_trees=False)


def cuts(items: Sequence[_T]) -> Iterator[tuple[_T, ...]]:
    """Yield the items without a half, without a quarter, and so on down to without one, each from the end on."""
    size = len(items) // 2 or 1
    while items and size:
        for start in range(len(items) - size, -1, -size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def _with(items: Sequence[_T], at: int, item: _T) -> tuple[_T, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _simpler(step: Step) -> Iterable[Step]:
    if step.again is not None:
        yield replace(step, again=None)
    if step.strike is not None:
        yield replace(step, strike=None, again=None)
    action = step.action
    if isinstance(action, Deliver) and action.n > 1:
        for n in (1, action.n // 2, action.n - 1):
            yield replace(step, action=replace(action, n=n))
    if isinstance(action, Deliver) and (action.back or action.twice):
        yield replace(step, action=replace(action, back=0, twice=0))
        yield replace(step, action=replace(action, back=max(0, action.back - 1), twice=max(0, action.twice - 1)))
    if isinstance(action, BuildViews) and action.steps > 1:
        for steps in (1, action.steps // 2):
            yield replace(step, action=replace(action, steps=steps))
    if isinstance(action, Write):
        for records in cuts(action.records):
            if records:
                yield replace(step, action=replace(action, records=records))
        for place, record in enumerate(action.records):
            for plain in _plainer(record):
                yield replace(step, action=replace(action, records=_with(action.records, place, plain)))


def _plainer(record: Record) -> Iterator[Record]:
    """Yield the record without one of its fields, for each field."""
    if isinstance(record.doc, Mapping):
        for name in record.doc:
            yield replace(record, doc={n: v for n, v in record.doc.items() if n != name})
