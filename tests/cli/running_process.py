"""`penstock run` in a process of its own, and the waits and checks that its tests share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load as load_app
from tests.cli.loading import PENSTOCK, STORE
from tests.waiting import PATIENCE

_LOOK = 0.02
ROOT = Path(__file__).resolve().parents[2]


def user(i: int, name: str = "Sue", ts: int = 1) -> str:
    """Return a line of users."""
    return json.dumps({"id": i, "name": name, "ts": ts}) + "\n"


def until(found: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    """Wait until `found` returns True, while the process lives. A missing file counts as False."""
    for _ in range(int(PATIENCE / _LOOK)):
        with suppress(FileNotFoundError):
            if found():
                return
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LOOK)
            raise AssertionError(f"it ended: {child.communicate()}")
    raise AssertionError("nothing came of it")


def has_users(n: int) -> Callable[[], bool]:
    """Return a function that tests whether the store has this number of users."""

    def found() -> bool:
        try:
            with ps.open(load_app("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
                return len(snap.table("users")) == n
        except ps.StoreMissing:
            return False

    return found


@contextmanager
def running(
    *sources: str,
    sinks: Sequence[str] = (),
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    program: Sequence[str] = PENSTOCK,
    options: Sequence[str] = (),
) -> Iterator[subprocess.Popen[str]]:
    """Run `penstock run` in a process of its own."""
    arguments = [argument for source in sources for argument in ("--from", source)]
    arguments += [argument for sink in sinks for argument in ("--to", sink)]
    with subprocess.Popen(
        [*program, "run", *arguments, *options],
        cwd=cwd,
        env={**os.environ, "HOLDS": "1", "PYTHONPATH": str(ROOT), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def ended(child: subprocess.Popen[str], with_signal: int = signal.SIGTERM) -> tuple[int, str, str]:
    """End it with a signal. Return its exit code and output."""
    child.send_signal(with_signal)
    out, err = child.communicate(timeout=PATIENCE)
    return child.returncode, out, err
