"""An engine with an oracle beside it: each call goes to both. After it, all their documents and rows are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.harness.checks import check, check_recompute, counts_of
from tests.harness.worlds import World
from tests.oracle.model import Counts
from tests.oracle.reducers import Count, Mean, Sum, Variance
from tests.oracle.tables import Table
from tests.oracle.views import View

TS = Table("users", "id", ts="ts")
PLAIN = Table("plain", "id")
PATCHED = Table("patched", "id", ts="ts", merge="patch")
SUMS = {"n": Count(), "some": Count("v"), "total": Sum("v"), "avg": Mean("v"), "var": Variance("v", ddof=0)}
# Every merge and every kind of number, each in a view of its own.
WORLD = World(
    (TS, PLAIN, PATCHED),
    (
        View("names", "users", Count(), key="name"),
        View("lengths", "names", Sum(), fn=lambda row: [(len(row.key), row.value)]),
        View("sums", "plain", SUMS, key="g"),
        View("spread", "plain", {"n": Count(), "total": Sum()}, fn=lambda doc: [(g, doc.get("v")) for g in doc["gs"]]),
        View("fields", "patched", Count("a"), key="g"),
    ),
)


class Beside:
    """An engine with an oracle beside it."""

    def __init__(self, engine: Any, world: World) -> None:
        self.engine, self.model = engine, world.model()

    def __call__(self, call: str, *args: Any, **options: Any) -> Counts:
        """Call `put`, `put_many` or `delete` on both, and compare."""
        got = counts_of(getattr(self.engine, call)(*args, **options))
        wanted = getattr(self.model, call)(*args, **options)
        assert got == wanted, f"{call}: counted {got}, should be {wanted}; {str((args, options))[:300]}"
        self.check()
        return got

    @contextmanager
    def batch(self) -> Iterator[Sequence[Any]]:
        """Run a batch on both, and compare at its end."""
        with self.engine.batch() as real, self.model.batch() as model:
            yield real, model
        got = counts_of(real.counts)
        assert got == model.counts, f"batch: counted {got}, should be {model.counts}"
        self.check()

    def check(self) -> None:
        """Compare everything that the engine shows with the oracle and with a recomputation."""
        check(self.engine, self.model)
        check_recompute(self.engine, self.model)

    def shown(self, view: str) -> dict[Any, Any]:
        """Return the rows of a view as the engine shows them."""
        with self.engine.snapshot() as snap:
            return dict(snap.view(view).items())


def user(name: str, ts: int, key: int = 1) -> dict[str, Any]:
    """Return a document of `users`."""
    return {"id": key, "name": name, "ts": ts}


def number_of(rejection: Any) -> int:
    """Return the number of the rejected line or document, counted from 1."""
    return int("".join(c for c in str(rejection.where) if c.isdigit()))
