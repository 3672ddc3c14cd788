"""Do damage of many kinds to copies of a store, each in a process of its own: `make damage`.

    make damage ARGS="--flips 5000 --nodes 900 --cuts 100 --seed 3"

A trial does damage, and then acts as an operator: it runs a check, applies the remedy that the check names, and reads
everything. It ends well if the damage is named or refused. It also ends well if the check finds nothing and all reads
equal those of the sound store. It fails if a clean check is followed by a different read, by an error that is not one
of Penstock's, or by a signal. `KINDS` has the kinds of damage. A module adds a kind by a function there.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults import bombs, flips, lost_rows

Trial = Callable[[random.Random, Path], str]
"""Does damage of one kind in a folder. Returns the outcome in a few words, or raises `Failed` or any other error."""
_PATIENCE = 120  # seconds after which a trial counts as hanging


class Failed(AssertionError):
    """A trial that failed."""


@dataclass(frozen=True)
class Kind:
    """A kind of damage: its help text, and the function that prepares its trials once, in a folder for all of them."""

    about: str
    begin: Callable[[Path], Trial]


KINDS: dict[str, Kind] = {
    "flips": Kind("a bit turned anywhere in the data file", lambda folder: flips.begin(folder, "anywhere")),
    "nodes": Kind(
        "a bit turned in the header of a page or node, or in a key", lambda folder: flips.begin(folder, "nodes")
    ),
    "bombs": Kind("small input that asks for much work or memory", bombs.begin),
    "rows": Kind("a row or database lost, moved or doubled, in sound pages", lost_rows.begin),
    "cuts": Kind("a data file cut off anywhere", lambda folder: flips.begin(folder, "cuts")),
}


def in_child(work: Callable[[], str]) -> str:
    """Run the work in a forked process, and return its text. Raise `Failed` if the process ends in another way."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        signal.alarm(_PATIENCE)
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)  # LMDB writes there why it aborts
        try:
            said = "+" + work()
        except BaseException as error:
            last = "" if isinstance(error, Failed) else "".join(traceback.format_tb(error.__traceback__)[-2:])
            said = f"-{type(error).__name__}: {error}\n{last}"
        with suppress(BaseException):
            os.write(write, said.encode("utf-8", "replace")[:60_000])
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise Failed(f"ended by {signal.Signals(os.WTERMSIG(status)).name}")
    if not said.startswith("+"):
        raise Failed(said[1:])
    return said[1:]


def campaign(trials: dict[str, int], seed: int, report: Callable[[str], None], folder: Path) -> Iterator[str]:
    """Run a number of trials of each kind. Yield the failures, each with the arguments that repeat it."""
    for name, count in trials.items():
        own = folder / name
        own.mkdir(exist_ok=True)
        trial = KINDS[name].begin(own)
        ends: Counter[str] = Counter()
        for number in range(seed, seed + count):
            place = own / "trial"
            place.mkdir()
            try:
                ends[in_child(partial(trial, random.Random(f"{name} {number}"), place))] += 1
            except Failed as failed:
                ends["FAILED"] += 1
                yield f"--{name} 1 --seed {number}: {failed}"
            shutil.rmtree(place, ignore_errors=True)
        report(f"{name}: " + ", ".join(f"{n} {end}" for end, n in ends.most_common()))


def main(args: Sequence[str] | None = None) -> int:
    """Run the command. Return 1 if a trial failed."""
    parser = argparse.ArgumentParser(
        prog="make damage", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name, kind in KINDS.items():
        parser.add_argument(f"--{name}", type=int, default=0, metavar="N", help=kind.about)
    parser.add_argument("--seed", type=int, default=1, help="the number of the first trial of each kind")
    given = vars(parser.parse_args(args))
    trials = {name: given[name] for name in KINDS if given[name]}
    if not trials:
        trials = {"flips": 500, "nodes": 500, "cuts": 50, "bombs": 50}
    failures = 0
    with tempfile.TemporaryDirectory(prefix="damage-") as top:
        for failure in campaign(trials, given["seed"], lambda line: print(line, flush=True), Path(top)):
            failures += 1
            print(f"FAILED {failure}", flush=True)
    print(f"{sum(trials.values())} trials, {failures} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
