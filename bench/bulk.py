"""Figures of bulk writes: field views from an empty store, in steady state, with a second core, and function views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import child
from bench.plan import Plan
from bench.report import Figure, median

LOAD = "bench.load:load"
# Times of decode-only that a figure may take, for the larger and the smaller batch.
FIELDS, STEADY, FUNCTIONS = (6.0, 8.0), (7.0, 9.0), 12.0
SECOND_CORE = 1.4
GROWN = 1.1  # a file that is this much larger after the last pass than after the second isn't constant


def fields(plan: Plan) -> Iterator[Figure]:
    """Field views on one core, from an empty store."""
    for batch, bound in zip(plan.batches, FIELDS, strict=True):
        rounds = _rounds(plan, cores=1, batch=batch)
        yield _figure(plan, "fields", f"batches of {batch:,}", rounds, bound)


def steady(plan: Plan) -> Iterator[Figure]:
    """Measure field views in four passes over the same keys."""
    for batch, bound in zip(plan.batches, STEADY, strict=True):
        rounds = _rounds(plan, cores=1, batch=batch, passes=4)
        yield _figure(plan, "steady", f"batches of {batch:,}", rounds, bound)
        sizes = rounds[-1]["sizes"]
        grown = sizes[-1] / sizes[1]
        yield Figure(
            "steady",
            f"file, {batch:,}",
            sizes[-1] / 1e6,
            "MB",
            {},
            rounds[-1]["idle"],
            f"≤ {GROWN} × after pass 2",
            grown,
            plan.met(grown <= GROWN),
            {"bytes after each pass": sizes},
        )


def iterable(plan: Plan) -> Iterator[Figure]:
    """Measure put_many of an iterable on all cores against lists on one core, in turns, for one pass and for four.

    A child process starts with the call, which is visible in the first of these.
    """
    batch = plan.batches[0]
    for passes in (1, 4):
        speedups, rounds, alone = [], [], []
        for _ in range(plan.rounds):
            alone += _rounds(plan, 1, cores=1, batch=batch, passes=passes)
            rounds += _rounds(plan, 1, batch=batch, passes=passes, iterable=True)
            speedups.append(alone[-1]["seconds"] / rounds[-1]["seconds"])
        gain = median(speedups)
        yield Figure(
            "iterable",
            f"{passes * plan.docs:,} documents",
            _rate(rounds),
            "documents/s",
            {"one core, documents/s": _rate(alone), **_limits(rounds)},
            _idle(rounds),
            f"rate ≥ {SECOND_CORE} × one core",
            gain,
            plan.met(gain >= SECOND_CORE),
        )


def functions(plan: Plan) -> Iterator[Figure]:
    """Measure the views as Python functions."""
    for batch, bound in zip(plan.batches, (None, FUNCTIONS), strict=True):
        rounds = _rounds(plan, cores=1, batch=batch, functions=True)
        yield _figure(plan, "functions", f"batches of {batch:,}", rounds, bound)


def _rounds(plan: Plan, count: int | None = None, **how: Any) -> list[dict[str, Any]]:
    return [
        child.run(LOAD, folder=plan.at("bulk"), keys=plan.keys, docs=plan.docs, **how)
        for _ in range(count or plan.rounds)
    ]


def _figure(plan: Plan, name: str, case: str, rounds: list[dict[str, Any]], bound: float | None) -> Figure:
    """Return a rate, judged by the median over rounds of its time in units of decode-only."""
    ratios = [r["seconds"] / r["decode"] for r in rounds]
    ratio = median(ratios)
    return Figure(
        name,
        case,
        _rate(rounds),
        "documents/s",
        _limits(rounds),
        _idle(rounds),
        f"time ≤ {bound:g} × decode-only" if bound else "",
        ratio,
        None if bound is None else plan.met(ratio <= bound),
        {"µs a document": median(1e6 * r["seconds"] / r["docs"] for r in rounds), "ratios": ratios},
    )


def _rate(rounds: list[dict[str, Any]]) -> float:
    return median(r["docs"] / r["seconds"] for r in rounds)


def _limits(rounds: list[dict[str, Any]]) -> dict[str, float | None]:
    """Limits in µs a document."""
    return {
        "decode-only, µs": median(1e6 * r["decode"] / r["docs"] for r in rounds),
        "append + fdatasync, µs": median(1e6 * r["append"] for r in rounds),
        "LMDB commit of the bytes, µs": median(1e6 * r["commit"] for r in rounds),
    }


def _idle(rounds: list[dict[str, Any]]) -> float | None:
    """The least quiet round."""
    return min((r["idle"] for r in rounds if r["idle"] is not None), default=None)
