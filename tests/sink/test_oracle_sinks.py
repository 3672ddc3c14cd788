"""Kill sinks of stores with one and with several partitions anywhere: no value goes back, and the end is the view."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.cli.json_values import dumps
from penstock.kafka import MARK
from penstock.sink import FileSink, KafkaSink, open_file
from penstock.sink import kafka_sink as module
from penstock.views import ABSENT, Change, Position
from tests.sink.given_changes import VIEW, GivenChanges
from tests.sink.topics import ADDRESS, Killed, Topics

SEEDS = range(150)
_RUNS = 7


def into_a_topic(seed: int, parts: int, change: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run several writers into one topic, and kill most of them. Return the number of kills."""
    draw = Random(seed)
    given, topics = GivenChanges(draw, parts), Topics(draw, draw.randrange(1, 4))
    monkeypatch.setattr(module, "connect", lambda address: topics)
    monkeypatch.setattr(module, "_PENDING", draw.choice((3, 10_000)))
    kills = 0
    for n in range(_RUNS):
        given.commit(draw.randrange(8))
        last = n == _RUNS - 1
        ended, topics.mortal = False, not last
        with suppress(Killed):
            sink = KafkaSink(ADDRESS, VIEW, "change" if change else "value", dumps, topics.clock)
            all_given = given.give(sink, sink.begin(), -1 if last else draw.randrange(14))
            if last or draw.random() < 0.5:
                sink.close()
                ended = all_given
        if not ended:
            topics.kill()
            kills += 1
        _headers_follow(topics)
        (_changes_follow if change else _values_follow)(given, topics)
        if ended:
            latest = {json.loads(key): value for key, value, *_ in topics.rows() if key is not None and key != MARK}
            received = {group: json.loads(value) for group, value in latest.items() if value is not None}
            name = "new" if change else "value"
            assert {group: own[name] for group, own in received.items()} == given.rows(given.now)
    return kills


def _headers_follow(topics: Topics) -> None:
    """Each header of a partition has at least the held and sent positions of the header before it."""
    for own in topics.stored:
        said = [json.loads(record.headers[0][1] or b"") for record in own]
        for before, after in pairwise(said):
            assert _is_later(after["position"], before["position"])
            assert before["held"] is None or _is_later(after["held"], before["held"])


def _is_later(position: Any, other: Any) -> bool:
    if isinstance(position, int):
        return bool(position >= other)
    return all(here >= received for here, received in zip(position, other, strict=True))


def _values_follow(given: GivenChanges, topics: Topics) -> None:
    seen: dict[str, list[Any]] = defaultdict(list)
    for key, value, *_ in topics.rows():
        if key != MARK:
            seen[json.loads(key or b"")].append(None if value is None else json.loads(value)["value"])
    for group, values in seen.items():
        given.must_follow(group, values)


def _changes_follow(given: GivenChanges, topics: Topics) -> None:
    seen: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    for key, value, *_ in topics.rows():
        if value is not None:
            own = json.loads(value)
            seen[json.loads(key or b"")].append((own.get("old", ABSENT), own.get("new", ABSENT)))
    for group, pairs in seen.items():
        given.must_be_whole(group, pairs)


class Sized:
    """A file sink that remembers the size of the file before the last call."""

    contract = ""

    def __init__(self, sink: FileSink, path: Path) -> None:
        self._sink, self._path = sink, path
        self.size = 0

    def begin(self) -> Position | None:
        """Return the position of the sink."""
        since = self._sink.begin()
        self.size = self._path.stat().st_size
        return since

    def write(self, changes: Sequence[Change]) -> None:
        """Write changes."""
        self.size = self._path.stat().st_size
        self._sink.write(changes)

    def holds(self, position: Position) -> None:
        """Mark a position as held."""
        self.size = self._path.stat().st_size
        self._sink.holds(position)

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()


def into_a_file(seed: int, parts: int, change: bool, path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run several writers into one file, and kill most of them, also within a line. Return the number of kills."""
    monkeypatch.setattr(os, "fdatasync", lambda file: None)  # the sync only protects against a power loss
    draw = Random(seed)
    given, kills = GivenChanges(draw, parts), 0
    path.unlink(missing_ok=True)
    for n in range(_RUNS):
        given.commit(draw.randrange(8))
        sink = Sized(open_file(str(path), VIEW, "change" if change else "value", dumps), path)
        ended = given.give(sink, sink.begin(), -1 if n == _RUNS - 1 else draw.randrange(14))
        sink.close()
        if not ended:
            os.truncate(path, draw.randrange(min(sink.size, path.stat().st_size), path.stat().st_size + 1))
            kills += 1
        lines = [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        seen: dict[str, list[Any]] = defaultdict(list)
        for line in lines:
            if "group" in line:
                seen[line["group"]].append(line.get("new" if change else "value", ABSENT) or ABSENT)
        for group, values in seen.items():
            history = given.history(group)
            assert any(history[a : a + len(values)] == values for a in range(len(history))), (group, values, history)
        if ended:
            now = {group: values[-1] for group, values in seen.items() if values[-1] is not ABSENT}
            assert now == given.rows(given.now)
    return kills


@pytest.mark.parametrize("change", [False, True], ids=["value", "change"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_topic_survives_all_kills(parts: int, change: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(into_a_topic(seed, parts, change, monkeypatch) for seed in SEEDS) > len(SEEDS)


@pytest.mark.parametrize("change", [False, True], ids=["value", "change"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_file_survives_all_kills(parts: int, change: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    assert sum(into_a_file(seed, parts, change, path, monkeypatch) for seed in SEEDS) > len(SEEDS)
