"""Batches that a driver commits leave the same as the embedded engine, also if processes and drivers are killed.

Each planted bug is found within a few seeds. `make state-kills` draws more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import penstock as ps
from penstock.cache import PenstockError, RowChanges
from penstock.partitions.state.local_copy import LocalCopy
from penstock.partitions.state.state_partition import StatePartition
from penstock.partitions.state.turns import BatchTurn, ChainLink, Report, StateVersion, Taken
from penstock.testing.inputs.trial_apps import Trial, TrialRecords, trials
from tests.partitions.state import state_fleet
from tests.partitions.state.state_fleet import SOURCE, Faults, Fleet, faulty


def tossing() -> Trial:
    """Return an app whose map is not deterministic: a second execution sends other productions."""
    app, draw = ps.App("tossing"), Random(5)
    users = app.table("users", key="id", ts="ts")

    @users.view("sides", reduce=ps.count(), version="1")
    def sides(doc: Any) -> Iterator[Any]:
        yield draw.randrange(8), None

    return Trial("tossing", app, lambda: TrialRecords({"users": lambda r, _: {"v": r.random()}}))


# A held group keeps its last good result, which depends on the transactions between. So `asking` is left out of runs
# with several partitions.
TRIALS = {trial.name: trial for trial in trials() if trial.name != "asking"}


def run(trial: Trial, seed: int, partitions: int, path: Path, rate: float, batches: int = 8) -> Fleet:
    """Take batches in a state and in the embedded engine, and compare what both have."""
    draw, stream = Random(seed), trial.stream()
    faults = Faults(Random(seed + 1), rate)
    fleet = Fleet(trial.app, path, partitions, faults)
    with ps.open(trial.app, None) as plain:
        try:
            with faulty(faults):
                for number in range(batches):
                    records = [stream.record(draw) for _ in range(draw.randint(0, 12))]
                    records = [ps.Record(r.table, r.key, r.doc, r.ts, offset=number) for r in records]
                    plain.ingest(records, source=SOURCE, resume=number + 1)
                    fleet.commit(records)
        finally:
            fleet.close()
        fleet.restore(path / "restored")
        with ps.open(trial.app, path / "restored", listen=False, processes=False) as restored:
            assert not restored.check().wrong
            if trial.name != "tossing":
                assert restored.digest() == plain.digest()
            assert set(restored.status()["sources"].values()) <= {batches}
    return fleet


@pytest.mark.parametrize("name", TRIALS)
def test_batches_leave_what_the_embedded_engine_has(name: str, tmp_path: Path) -> None:
    run(TRIALS[name], 1, 2, tmp_path, 0.0, 5)


def test_they_do_so_under_faults(tmp_path: Path) -> None:
    kills = sum(one_seed(seed, tmp_path / str(seed)).faults.kills for seed in range(12))
    assert kills > 50, "processes are killed in these runs"


def one_seed(seed: int, path: Path) -> Fleet:
    """Run the trial of a seed with its number of partitions."""
    every = [*TRIALS.values(), tossing()]
    path.mkdir()
    return run(every[seed % len(every)], seed, 1 + seed % 3, path, 0.05)


def one_toss(seed: int, path: Path) -> Fleet:
    """Run the app whose map is not deterministic, with more faults."""
    path.mkdir()
    return run(tossing(), seed, 2 + seed % 2, path, 0.1)


def an_undecided_turn_stays(patch: pytest.MonkeyPatch) -> None:
    def stand(self: Any, base: StateVersion) -> Any:
        own = self._open
        if own is not None and not own.links and own.version.id == base.id:
            own.member.core.state = msgspec.structs.replace(own.member.core.state, batch=self._turn.batch)
            return own
        return real(self, base)

    real = StatePartition._stand
    patch.setattr(StatePartition, "_stand", stand)
    patch.setattr(StatePartition, "_must_follow", lambda *_: None)


def rows_without_their_version(patch: pytest.MonkeyPatch) -> None:
    def sealed(self: Any, own: Any, last: Taken) -> Report:
        report = real(self, own, last)
        own.store.keep_turn()
        return report

    real = StatePartition._sealed
    patch.setattr(StatePartition, "_sealed", sealed)
    patch.setattr(StatePartition, "_must_follow", lambda *_: None)


def reports_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state_fleet, "misfit", lambda *_: None)


def the_manifest_precedes_a_report(patch: pytest.MonkeyPatch) -> None:
    def end(self: StatePartition, *args: Any) -> Report:
        report = real(self, *args)
        return msgspec.structs.replace(report, links=report.links if self.partition or len(report.sent) < 2 else [])

    real = StatePartition.end
    patch.setattr(StatePartition, "end", end)


def a_turn_is_taken_twice(patch: pytest.MonkeyPatch) -> None:
    def begin(self: Any, turn: BatchTurn) -> bool:
        if turn == self._turn and self._answers:
            self._answers = []
        return real(self, turn)

    def stand(self: Any, base: StateVersion) -> Any:
        own = self._open
        return own if own is not None and own.version.id == base.id else real_stand(self, base)

    real, real_stand = StatePartition._begin, StatePartition._stand
    patch.setattr(StatePartition, "_begin", begin)
    patch.setattr(StatePartition, "_stand", stand)
    patch.setattr(StatePartition, "_must_follow", lambda *_: None)
    patch.setattr(state_fleet, "misfit", lambda *_: None)


def productions_get_lost_between_stages(patch: pytest.MonkeyPatch) -> None:
    def taken(self: Any, own: Any, counts: Any) -> Taken:
        answer = real(self, own, counts)
        return msgspec.structs.replace(answer, blobs=answer.blobs[: 1 if self._turn.batch % 3 else None])

    real = StatePartition._taken
    patch.setattr(StatePartition, "_taken", taken)
    patch.setattr(state_fleet, "misfit", lambda *_: None)


def deletions_are_not_in_the_changelog(patch: pytest.MonkeyPatch) -> None:
    def write(self: LocalCopy, parent: str, link: ChainLink, changes: list[RowChanges]) -> None:
        real(self, parent, link, [one._replace(deleted=[]) for one in changes])

    real = LocalCopy.write_changelog
    patch.setattr(LocalCopy, "write_changelog", write)


def a_changelog_is_skipped(patch: pytest.MonkeyPatch) -> None:
    real = LocalCopy._apply
    patch.setattr(
        LocalCopy, "_apply", lambda self, store, parent, link: link.batch % 3 and real(self, store, parent, link)
    )


def a_snapshot_file_hides_a_changelog(patch: pytest.MonkeyPatch) -> None:
    def over(self: StateVersion, snapshot: Any) -> StateVersion:
        return StateVersion(snapshot, self.chain[self.ids.index(snapshot.id) + 1 :])

    patch.setattr(StateVersion, "over", over)


PLANTED: list[Callable[[pytest.MonkeyPatch], None]] = [
    an_undecided_turn_stays,
    rows_without_their_version,
    reports_are_not_compared,
    the_manifest_precedes_a_report,
    a_turn_is_taken_twice,
    productions_get_lost_between_stages,
    deletions_are_not_in_the_changelog,
    a_changelog_is_skipped,
    a_snapshot_file_hides_a_changelog,
]


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bug(monkeypatch)
    one = one_toss if bug is reports_are_not_compared else one_seed
    for seed in range(60):
        try:
            one(seed, tmp_path / str(seed))
        except (AssertionError, PenstockError, KeyError):
            return
    raise AssertionError("sixty seeds did not find it")
