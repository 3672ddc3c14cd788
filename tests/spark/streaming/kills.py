"""Kill drivers, state processes and Python workers of a stream at random, and compare what is left.

Run `make spark-stream-kills ARGS="--kills 50 --seed 3"`. Each round starts `python -m tests.spark.streaming.driver`,
adds documents, and kills one process with SIGKILL. The driver is started again until it ends by itself. At the end the
state is restored, and its digest is compared with that of the embedded engine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import penstock as ps
from penstock.spark import SparkState, restore_state
from tests.spark.streaming.stream_app import append, documents, streamed
from tests.waiting import PATIENCE

_MOST = 200  # documents of a round
VICTIMS = ("driver", "state process", "worker")


def children(process: int) -> Iterator[int]:
    """Yield all processes below a process, and the state processes, which have left it."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and parent(int(entry)) == process:
            yield int(entry)
            yield from children(int(entry))


def parent(process: int) -> int:
    """Return the parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def command(process: int) -> str:
    """Return the command line of a process."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def victim(kind: str, driver: int, draw: Random) -> int | None:
    """Return a process of a kind that belongs to this driver."""
    below = list(children(driver))
    match kind:
        case "driver":
            return driver
        case "state process":
            found = [one for one in below if "state_main" in command(one)]
        case _:
            found = [
                one for one in below if "pyspark.daemon" in command(one) and "pyspark.daemon" in command(parent(one))
            ]
    return draw.choice(found) if found else None


def main() -> int:
    """Run the campaign. Return 0 if nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="processes to kill (10)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw, folder = Random(asked.seed), Path(tempfile.mkdtemp(prefix="penstock-kills-"))
    app = streamed()
    kills: dict[str, int] = dict.fromkeys(VICTIMS, 0)
    with ps.open(app, None) as plain:
        rounds = 0
        while sum(kills.values()) < asked.kills:
            docs = documents(1000 * asked.seed + rounds, _MOST)
            append(folder, docs)
            for table, own in docs.items():
                plain.put_many(table, own)
            rounds += 1
            _one_round(folder, draw, kills, asked.kills)
            last = SparkState(str(folder / "state")).newest()
            print(f"round {rounds}: {kills}, batch {None if last is None else last.batch}", flush=True)
        restore_state(str(folder / "state"), str(folder / "store"))
        with ps.open(app, folder / "store", listen=False, processes=False) as store:
            same, wrong = store.digest() == plain.digest(), list(store.check().wrong)
    print(f"digests {'are equal' if same else 'DIFFER'}, check finds {len(wrong)} wrong; {rounds} rounds, {kills}")
    if same and not wrong:
        shutil.rmtree(folder)
        return 0
    print(f"see {folder}")
    return 1


def _one_round(folder: Path, draw: Random, kills: dict[str, int], most: int) -> None:
    """Run the driver until it has taken all documents, and kill a process now and then."""
    while True:
        with open(folder / "log", "ab") as log:
            driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.streaming.driver", str(folder)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until, strike = time.monotonic() + PATIENCE, time.monotonic() + draw.uniform(4.0, 25.0)
        while driver.poll() is None:
            if time.monotonic() > until:
                os.killpg(driver.pid, signal.SIGKILL)
                raise AssertionError(f"the driver does not end; see {folder / 'log'}")
            if time.monotonic() > strike and sum(kills.values()) < most:
                strike = time.monotonic() + draw.uniform(0.5, 8.0)
                kind = draw.choice(VICTIMS)
                found = victim(kind, driver.pid, draw)
                if found is not None:
                    kills[kind] += 1
                    if kind == "driver":
                        os.killpg(driver.pid, signal.SIGKILL)  # with its Java
                    else:
                        os.kill(found, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.05)
        if driver.returncode == 0:
            return


if __name__ == "__main__":
    sys.exit(main())
