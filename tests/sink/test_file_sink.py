"""Write lines to a file sink, continue after a kill, and refuse foreign files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.partitions.copies.repartition_job import MOST_PARTITIONS
from penstock.sink import FileSink, Sink, SinkBusy, SinkTaken, file_sink, open_file
from penstock.sink.position_order import position_of
from penstock.views import Position

VIEW = 'name "count"'


@contextmanager
def opened(path: Path, envelope: str = "value", view: str = VIEW) -> Iterator[FileSink]:
    sink = open_file(str(path), view, envelope, json.dumps)
    try:
        yield sink
    finally:
        sink.close()


def change(group: Any, old: Any, new: Any, position: Position) -> ps.Change:
    return ps.Change(VIEW, group, old, new, position)


def latest(data: bytes) -> dict[str, Any]:
    """Return the latest value per group, as a consumer keeps it. Incomplete lines are ignored."""
    out: dict[str, Any] = {}
    for line in data.splitlines(keepends=True):
        found = json.loads(line) if line.endswith(b"\n") else {}
        if "group" in found:
            out[found["group"]] = found["value"]
            if found.get("deleted"):
                del out[found["group"]]
    return out


HISTORY = [
    (1, [("a", ps.ABSENT, 1), ("b", ps.ABSENT, None), ("c", ps.ABSENT, "\n{")]),
    (2, []),
    (5, [("a", 1, 2), ("b", None, ps.ABSENT)]),
    (6, []),
    (7, [("b", ps.ABSENT, 3), ("c", "\n{", ps.ABSENT)]),
]
VALUES = {5: {"a": 2, "c": "\n{"}, 7: {"a": 2, "b": 3}}


Shown = Callable[[int], Position]


@pytest.fixture(params=[1, 3])
def at(request: pytest.FixtureRequest) -> Shown:
    """A position of the history, for stores with one partition and with several."""
    return (lambda n: n) if request.param == 1 else lambda n: (n, 9, n * n)


def give(sink: FileSink, since: Position | None, at: Shown = int) -> None:
    """Write all of the history after a position."""
    for position, changes in HISTORY:
        if since is None or at(position) > since:
            sink.write([change(*one, at(position)) for one in changes])
            sink.holds(at(position))


def test_the_latest_value_of_each_group(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        assert sink.begin() is None
        give(sink, None)
    name = json.dumps(VIEW)
    assert path.read_text().splitlines() == [
        f'{{"view": {name}, "group": "a", "value": 1, "position": 1}}',
        f'{{"view": {name}, "group": "b", "value": null, "position": 1}}',
        f'{{"view": {name}, "group": "c", "value": "\\n{{", "position": 1}}',
        f'{{"view": {name}, "envelope": "value", "position":                    2}}',
        f'{{"view": {name}, "group": "a", "value": 2, "position": 5}}',
        f'{{"view": {name}, "group": "b", "value": null, "deleted": true, "position": 5}}',
        f'{{"view": {name}, "envelope": "value", "position":                    6}}',
        f'{{"view": {name}, "group": "b", "value": 3, "position": 7}}',
        f'{{"view": {name}, "group": "c", "value": null, "deleted": true, "position": 7}}',
        f'{{"view": {name}, "envelope": "value", "position":                    7}}',
    ]
    assert latest(path.read_bytes()) == VALUES[7]
    with opened(path) as sink:
        assert sink.begin() == 7


def test_the_change_envelope_has_whole_changes(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with opened(path, "change") as sink:
        assert sink.begin() is None
        give(sink, None)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[4] == {"view": VIEW, "group": "a", "old": 1, "new": 2, "position": 5}
    assert lines[5] == {"view": VIEW, "group": "b", "old": None, "position": 5}
    assert lines[-1] == {"view": VIEW, "envelope": "change", "position": 7}
    with opened(path, "change") as sink:
        assert sink.begin() == 7


def test_a_file_cut_anywhere_ends_the_same(tmp_path: Path, at: Shown) -> None:
    """Cut the file at any byte, as a killed writer may leave it."""
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        sink.begin()
        give(sink, None, at)
    whole = path.read_bytes()
    marks = [
        (position_of(json.loads(line)["position"]), line)
        for line in whole.splitlines(keepends=True)
        if b"envelope" in line
    ]
    began = set()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with opened(path) as sink:
            since = sink.begin()
            assert path.stat().st_size <= cut, "nothing that isn't known to be whole is left"
            held = [position for position, line in marks if whole.index(line) + len(line) <= cut]
            assert since == (held[-1] if held else None)
            give(sink, since, at)
        assert path.read_bytes() == whole
        began.add(since)
    assert began == {None, at(2), at(6)}


def test_a_torn_mark_is_no_mark(tmp_path: Path, at: Shown) -> None:
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        sink.begin()
        give(sink, None, at)
        size = path.stat().st_size
        sink.holds(at(1_000_000))
        assert path.stat().st_size == size, "a mark that is moved takes no room"
    with opened(path) as sink:
        assert sink.begin() == at(1_000_000)
        sink.write([change("d", ps.ABSENT, 1, at(1_000_001))])
        sink.holds(at(1_000_001))
    assert len(path.read_text().splitlines()) == 12
    data = path.read_bytes()
    path.write_bytes(data[:-10] + b"\0" * 9 + b"\n")
    with opened(path) as sink:
        assert sink.begin() == at(1_000_000)


@pytest.mark.parametrize("block", [1, 7, 60, 100_000])
def test_the_last_mark_is_found_at_any_distance(
    block: int, tmp_path: Path, at: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sink, "_BLOCK", block)
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        sink.begin()
        give(sink, None, at)
        size = path.stat().st_size
        sink.write([change("x" * i, 1, 2, at(8)) for i in range(100)])
    with opened(path) as sink:
        assert sink.begin() == at(7)
        assert path.stat().st_size == size


def test_incomplete_initial_rows_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        sink.begin()
        sink.write([change("gone meanwhile", ps.ABSENT, 1, 3)])
    with opened(path) as sink:
        assert sink.begin() is None
        assert path.read_bytes() == b""


def test_an_empty_view_has_a_held_position(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        sink.begin()
        sink.holds(0)
    with opened(path) as sink:
        assert sink.begin() == 0


@pytest.mark.parametrize(
    "data", [b"import penstock\n", b"{}\n", b'{"view": "other", "group": 1}\n', b"\n", b'{"view": "m']
)
def test_foreign_data_stays_unchanged(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(data)
    with opened(path) as sink, pytest.raises(SinkTaken, match="something else than changes of view 'name \"count\"'"):
        sink.begin()
    assert path.read_bytes() == data


def test_another_envelope_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with opened(path) as sink:
        sink.begin()
        give(sink, None)
    before = path.read_bytes()
    with opened(path, "change") as sink, pytest.raises(SinkTaken, match="envelope=value and not of envelope=change"):
        sink.begin()
    assert path.read_bytes() == before


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with opened(tmp_path / "out.jsonl") as first, opened(tmp_path / "out.jsonl") as second:
        first.begin()
        with pytest.raises(SinkTaken, match="another process writes it"):
            second.begin()


def test_a_second_process_of_the_store_waits(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("something else\n")
    with opened(path) as sink:
        sink.claim = lambda what: "process 4711"
        with pytest.raises(SinkBusy, match="process 4711 writes it; wait until that one lets go"):
            sink.begin()


def test_a_mark_with_the_most_numbers(tmp_path: Path) -> None:
    path, position = tmp_path / "out.jsonl", tuple(range(10**9, 10**9 + MOST_PARTITIONS))
    with opened(path) as sink:
        sink.begin()
        sink.holds(position)
    with opened(path) as sink:
        assert sink.begin() == position


def test_a_pipe_begins_with_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with opened(path) as sink:
            assert sink.begin() is None
            assert "begins with all rows" in sink.contract
            give(sink, None)
            data = os.read(reading, 1 << 16)
    finally:
        os.close(reading)
    assert latest(data) == VALUES[7]
    assert b"envelope" not in data


def test_a_full_disk_names_the_file() -> None:
    with opened(Path("/dev/full")) as sink:
        sink.begin()
        with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
            give(sink, None)


def test_a_file_sink_implements_the_protocol(tmp_path: Path) -> None:
    with opened(tmp_path / "out.jsonl") as made:
        sink: Sink = made
        methods = [name for name, value in vars(Sink).items() if callable(value) and not name.startswith("_")]
        assert len(methods) <= 5
        assert all(hasattr(sink, name) for name in (*methods, *Sink.__annotations__))
