"""Bugs planted in two-phase commit, for the simulator of workers and sinks to find.

`NAMED` are faults that the protocol's other implementations have or had, and breaks of its rules. `DISK` are breaks of
the order in which files are written and synced. `STORE` are bugs of a store that takes part.
"""

from __future__ import annotations

from pathlib import Path

from penstock.testing.connector.connector_run import finds
from tests.harness.planting import Bug, Edit

__all__ = ["BUGS", "DISK", "NAMED", "PINS", "STORE", "finds"]

PINS = Path(__file__).with_name("connector_pins.json")
_PARTICIPANT, _COORDINATOR = "connector.participant:Participant.", "connector.coordinator:Coordinator."
_STATE, _LOG = "connector.participant_state:LoggedState.", "connector.sockets.log_file:LogFile."
_WORKER, _PROGRAM = "testing.connector.simulated_worker:", "testing.connector.simulated_sink:FileProgram."
_STORED, _SUMMARY = "spout.wallaroo_state:StoredWorker.", "connector.log_records:LogSummary."

NAMED = [
    Bug(
        "a vote is sent, and its promise is not stored",
        _PARTICIPANT + "phase_1",
        "commit = self.state.prepare(OpenVote(frame.transaction, frame.ranges, commit))",
        "pass",
    ),
    Bug(
        "a transaction is committed without the votes of all",
        _WORKER + "SimulatedWorker.decide",
        "all(link.voted for link in self.links.values()):\n        for link in self.links.values():",
        "any(link.voted for link in self.links.values()):\n"
        "        for link in [link for link in self.links.values() if link.voted]:",
    ),
    Bug(
        "an abort vote is followed by a commit",
        _COORDINATOR + "vote",
        "self.session.emit(VoteReceived(frame.transaction, frame.commit))",
        "frame = Phase1Reply(frame.transaction, True)\n"
        "    self.session.emit(VoteReceived(frame.transaction, frame.commit))",
    ),
    Bug(
        "an open vote is forgotten at a restart",
        _SUMMARY + "of",
        "summary.apply(record)",
        "summary.apply(record)\n    summary.vote = None",
    ),
    Bug("a rollback cuts committed data", _STATE + "restore", "self._worker, self.prepared", "self._worker, 0"),
    Bug(
        "a rollback moves the committed offset",
        _SUMMARY + "apply",
        "case RollbackDone():\n            self.vote = None",
        "case RollbackDone():\n            self.committed, self.vote = self.prepared, None",
    ),
    Bug(
        "a worker gets the log of another one",
        "connector.sockets.state_folder:WorkerLogs.log",
        "if worker not in self._paths:",
        "if not self._paths.setdefault(worker, next(iter(self._paths.values()), '')):",
    ),
    Bug(
        "two workers get one file after the disk was full",
        "connector.sockets.state_folder:WorkerLogs._number",
        ", *map(os.path.basename, self._paths.values())",
        "",
    ),
    Bug(
        "open transactions are listed, and not settled",
        _COORDINATOR + "settle",
        "for transaction in frame.transactions:",
        "for transaction in ():",
    ),
    Bug(
        "an open transaction is committed in any case",
        _COORDINATOR + "settle",
        "self._state.is_committed(transaction)",
        "True",
    ),
    Bug(
        "an open transaction is aborted in any case",
        _COORDINATOR + "settle",
        "self._state.is_committed(transaction)",
        "False",
    ),
    Bug(
        "a transaction is decided by the last one that was asked for",
        "sink.wallaroo_decisions:SinkLog.is_committed",
        "self._last == transaction",
        "self._last <= transaction",
    ),
    Bug("a commit is not logged", _STATE + "commit", "self._write(CommitDone(", "self._summary.apply(CommitDone("),
    Bug(
        "the log commits before the program",
        _STATE + "commit",
        "self._output.commit(self._worker, vote.transaction, vote.end)",
        "self._write(CommitDone(self._clock(), vote.transaction, vote.end))\n"
        "    self._output.commit(self._worker, vote.transaction, vote.end)",
    ),
    Bug(
        "a decision is sent before it is stored",
        "sink.wallaroo_decisions:SinkLog.decide",
        "self._file.append(record)",
        "0",
    ),
    Bug(
        "a decision has the position of another one",
        "sink.wallaroo_decisions:SinkLog.decide",
        "self.open.end, self.next_position",
        "self.open.end, self.position or 0",
    ),
    Bug("a session begins at offset 0", _COORDINATOR + "start", "= self._state.committed", "= 0"),
    Bug("no abort vote ends a gap", _SUMMARY + "apply", "self.forced = False", "pass"),
    Bug(
        "a commit takes the bytes after its end",
        _STATE + "commit",
        "self._write(CommitDone(self._clock(), vote.transaction, vote.end))",
        "self._write(CommitDone(self._clock(), vote.transaction, self.received))",
    ),
    Bug("a session keeps bytes of the one before", _STATE + "restore", "self.received = self.prepared", "pass"),
    Bug(
        "the end of a range is checked the wrong way",
        _PARTICIPANT + "_is_valid",
        "start <= end <= self.state.received",
        "end >= self.state.received",
    ),
    Bug(
        "a second session takes a worker's state",
        "connector.participant_registry:ParticipantRegistry.answer",
        "if worker in self._active:",
        "if False:",
    ),
    Bug(
        "a worker whose connection was lost never returns",
        "connector.participant_registry:ParticipantRegistry.release",
        "self._active.discard(worker)",
        "pass",
    ),
    Bug(
        "a worker that names itself is retired",
        _PARTICIPANT + "workers_left",
        "if worker != self.worker",
        "",
        Edit("connector.participant_registry:ParticipantRegistry.left", "if worker not in self._active", ""),
    ),
    Bug(
        "workers that left keep their state",
        "connector.participant_registry:ParticipantRegistry.left",
        "self._retire(worker)",
        "pass",
    ),
    Bug(
        "bytes of a cut frame are lost",
        "connector.frame_splitter:FrameSplitter._release",
        "del self._data[: self._at]",
        "self._data.clear()",
    ),
    Bug(
        "a shortened log forgets its open vote",
        _SUMMARY + "records",
        "if self.vote is not None:",
        "if False:",
        Edit(
            "connector.sockets.state_folder:WorkerLog.append",
            "isinstance(record, CommitDone)",
            "True",
        ),
    ),
]
DISK = [
    Bug("a record is not synced", _LOG + "append", "if sync:", "if False:"),
    Bug("a shortened log is not synced before it takes its name", _LOG + "replace", "files.fsync(file)", "pass"),
    Bug("the name of a log is not synced", _LOG + "replace", "sync_folder(os.path.dirname(self.path), files)", "pass"),
    Bug(
        "an opening trusts records that were never synced",
        _LOG + "__init__",
        "files.fsync(self._file)\n            sync_folder(os.path.dirname(path), files)",
        "pass",
    ),
    Bug(
        "an opening keeps a cut record",
        _LOG + "__init__",
        "files.ftruncate(self._file, self.size)",
        "self.size = len(data)",
    ),
    Bug("a vote does not wait for its data", _PROGRAM + "prepare", "self._files.fsync(self._file(worker))", "pass"),
    Bug(
        "a vote does not wait for the name of its data",
        _PROGRAM + "prepare",
        "sync_folder(_OUTPUT, self._files)",
        "pass",
    ),
    Bug("published bytes are not synced", _PROGRAM + "commit", "self._files.fdatasync(out)", "pass"),
]
STORE = [
    Bug(
        "a commit does not take its documents",
        _STORED + "commit",
        "self._store(row, self._row.bodies)",
        "self._store(row)",
    ),
    Bug(
        "a vote does not store its messages",
        _STORED + "prepare",
        "forced=False, bodies=bodies",
        "forced=False, bodies=()",
    ),
    Bug("a commit keeps its vote open", _STORED + "commit", "vote=None, bodies=()", "bodies=()"),
    Bug("a rollback keeps the tail", _STORED + "rollback", "self._cut()", "pass"),
    Bug(
        "a store keeps the messages of a commit",
        _STORED + "commit",
        "committed=self.prepared, vote=None, bodies=()",
        "committed=self.prepared, vote=None",
        Edit(_STORED + "prepare", "bodies = tuple(", "bodies = self._row.bodies + tuple("),
    ),
]
BUGS = [*NAMED, *DISK, *STORE]
