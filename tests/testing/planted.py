"""Bugs planted in the engine and in the publisher, for the simulator to find.

They include the bugs of `tests/engine` in documents, generations and the feed. Others show only after a crash or a
fault, or with a slow reader or an operator. For each bug, `pins.json` has a seed that finds it, and the finding. The
tests run these seeds. `python -m tests.testing.search` searches for other seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.testing.inputs.trial_apps import trial_of, trials
from penstock.testing.simulator.run import Failure, run
from tests.core.reading.test_planted_bugs_feed import BUGS as FEED
from tests.engine.test_planted_bugs import BUGS as ENGINE
from tests.generations.test_planted_bugs_generations import BUGS as GENERATIONS
from tests.harness.planting import Bug, Edit

PINS = Path(__file__).with_name("pins.json")
TRIALS = trials()


_LATE = "[writer.put_many(*rows) for rows in (writes.puts if state != self.state else ())]"
_TOOK = "    self._took(state, writes)"
_IN_ANOTHER = "    with self.store.write() as writer:"

OWN = [
    Bug("an opening does not count the epoch up", "core.commit:Core.begin_epoch", "self.state.epoch + 1", "0"),
    Bug(
        "the position is counted though nothing changed",
        "core.commit:state_after",
        "old.position + writes.changed",
        "old.position + 1",
    ),
    Bug(
        "the state is written in a transaction of its own",
        "core.commit:Core._write",
        "write_state(writer, state)",
        "pass",
        Edit("core.commit:Core._commit", _TOOK, f"{_IN_ANOTHER} write_state(writer, state)\n{_TOOK}"),
    ),
    Bug(
        "rows are written in a transaction of their own",
        "core.commit:Core._write",
        "writes.write(writer)",
        "late = writes.puts; writes.puts = []; writes.write(writer); writes.puts = late",
        Edit("core.commit:Core._commit", _TOOK, f"{_IN_ANOTHER} {_LATE}\n{_TOOK}"),
    ),
    Bug(
        "memory is believed after a batch that was broken off",
        "core.commit:Core._work",
        "self._sure = False\n",
        "self._sure = True\n",
    ),
    Bug("few records: a late one is applied", "gateway.versions.winners:decide_each", "ts[i] < version.ts", "False"),
    Bug("few records: their ts is forgotten", "gateway.small_batch:FewForm._commit", "if has_ts and", "if False and"),
    Bug(
        "few records: contributions of a function before are not taken back",
        "gateway.small_batch_deltas:FewTelling.tell",
        "plus.pairs, minus.pairs, writes)",
        "plus.pairs, [], writes)",
    ),
    Bug(
        "few records: the contributions of fields before are not taken back",
        "gateway.small_batch_deltas:FewTelling.tell",
        "(reader, added, removed, writes)",
        "(reader, added, fields.contributions([]), writes)",
    ),
    Bug(
        "a snapshot reads what was written after it",
        "cache.store.memory_store:MemoryStore._publish",
        "elif database.made <= newest:",
        "elif False:",
    ),
    Bug(
        "a change is not sent while an older one is pending",
        "testing.simulator.publisher:Pub._changed",
        "name in self.pending or ",
        "",
    ),
    Bug(
        "a change is pending only after it was sent",
        "testing.simulator.publisher:Pub.poll",
        "writer.put_many(_PENDING, sorted(fresh.items()))",
        "pass",
    ),
    Bug(
        "an older change is taken after a newer one",
        "testing.simulator.publisher:Downstream._take",
        "known is None or known.position <= message.position",
        "True",
    ),
]
MORE = [
    Bug(
        "an opening goes on with what was begun for another app",
        "generations.app_comparison:compared",
        "known.since is not None and agrees(known, wanted)",
        "known.since is not None",
    ),
    Bug(
        "what can't be taken is not kept",
        "core.commit:Core._commit",
        "if rejects is not None and any(refused.values()):",
        "if False:",
    ),
    Bug(
        "what is retried is not told",
        "recovery.quarantine.retry_drop:OneStoreRetries._documents",
        "present = set(step(writer, writes, node, holds))",
        "present = set(holds)",
    ),
    Bug("a repost is taken for a document", "engine.calls.envelopes:ingested", "if record.repost:", "if False:"),
    Bug(
        "a view that is gone stays downstream",
        "testing.simulator.publisher:Pub._changed",
        "sorted(before.difference(views))",
        "()",
    ),
]
OWN += MORE
_OTHERWISE = (
    "rows come at the position after theirs",
    "changes are not counted",
    "what is dropped is not said",
    "a commit behind a large one is passed over",
)
"""Bugs of the feed that need its first read, a read that ends within a commit, or a store with millions of changes."""

BUGS: list[Bug] = [*ENGINE, *GENERATIONS, *(bug for bug in FEED if bug.name not in _OTHERWISE), *OWN]


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Plant a bug within this context."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        yield


def finds(seed: int) -> Failure | None:
    """Return the failure of a seed, or None."""
    trial, plan = trial_of(seed, TRIALS)
    try:
        run(trial.app, plan)
    except Failure as failure:
        return failure
    return None


@dataclass(frozen=True)
class Pin:
    """A seed that finds a bug, the check that fails, and its text."""

    seed: int
    check: str
    says: str


def pins(file: Path = PINS) -> dict[str, Pin]:
    """Return the pins by the names of their bugs."""
    return {name: Pin(**pin) for name, pin in json.loads(file.read_text("utf-8")).items()} if file.exists() else {}
