"""Check a store whose writer was killed.

The committed offset of the store gives the number of stored batches. All acknowledged batches are stored, and at most
the one batch in flight more. Documents and views are exactly those of these batches. A recomputation of the stored
documents gives the same views. A writer that continues there reaches the content of a writer that was never killed.
"""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import penstock as ps
from tests.core.crash import crash_writer as writer
from tests.harness.checks import check, check_recompute
from tests.harness.worlds import SHOP, TINY
from tests.oracle.model import Model

ROOT = Path(__file__).resolve().parents[3]


def start(path: Path, durability: str, batches: int, size: int, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start a writer in its own process on an empty store, perhaps under a tracer."""
    program = [
        sys.executable,
        "-m",
        "tests.core.crash.crash_writer",
        str(path),
        durability,
        "0",
        str(batches),
        str(size),
    ]
    return subprocess.Popen([*under, *program], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def acknowledged(said: str) -> int:
    """Return the last acknowledged number in the writer's output, or 0. Ignore a line that the kill cut off."""
    whole = said[: said.rfind("\n") + 1].split()
    return int(whole[-1]) if whole and whole[-1] != "open" else 0


@lru_cache(maxsize=4096)
def model_after(batches: int, size: int) -> Model:
    """Return the oracle's model after this number of batches."""
    model = SHOP.model()
    for number in range(batches):
        model.ingest(list(writer.records(number, size)), writer.SOURCE, number + 1)
    return model


@lru_cache(maxsize=64)
def digest_after(batches: int, size: int) -> str:
    """Return the digest of a store in memory after this number of batches."""
    with ps.open(SHOP.app(), None) as engine:
        for _ in writer.write(engine, 0, batches, size):
            pass
        return engine.digest()


def check_store(path: Path, said: str, batches: int, size: int) -> int:
    """Check a store after a kill. Return the number of stored batches."""
    least = acknowledged(said)
    with ps.open(SHOP.app(), path, limits=TINY) as engine:
        with engine.snapshot() as snap:
            done = dict(snap.sources).get(writer.SOURCE, 0)
        assert least <= done <= min(least + 1, batches), f"{least} batches were acknowledged, {done} are in"
        model = model_after(done, size)
        check(engine, model)
        check_recompute(engine, model)
        for _ in writer.write(engine, done, batches, size):
            pass
        assert engine.digest() == digest_after(batches, size)
    return done


def check_puts(path: Path, said: str) -> int:
    """Check a store of single documents put with tickets: the stored ones are the first, without a gap."""
    least = acknowledged(said)
    with ps.open(SHOP.app(), path, limits=TINY) as engine:
        with engine.snapshot() as snap:
            stored = sorted(key for key, _ in snap.table("users").items())
        assert stored == list(range(len(stored))), "a document is missing before one that is there"
        assert least <= len(stored), f"{least} documents were acknowledged, {len(stored)} are in"
        model = SHOP.model()
        model.put_many("users", [writer.document(number) for number in range(len(stored))])
        check(engine, model)
        check_recompute(engine, model)
    return len(stored)
