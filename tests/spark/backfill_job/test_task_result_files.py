"""Files of frames: reads equal writes, and a damaged or incomplete file is always detected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import StoreDamaged
from penstock.spark.backfill_job.task_result_files import FrameKind, TaskResultFile, read_task_results

ROWS = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=40)), max_size=20)


@given(parts=st.lists(st.tuples(st.sampled_from(FrameKind), st.sampled_from(["a", "view:é"]), ROWS), max_size=5))
def test_rows_come_back_by_kind_and_in_order(tmp_path_factory: pytest.TempPathFactory, parts: list) -> None:
    path = str(tmp_path_factory.mktemp("frames") / "one")
    with TaskResultFile(path) as frames:
        for kind, name, rows in parts:
            frames.add(kind, name, [key for key, _ in rows], [row for _, row in rows])
    for wanted in (list(FrameKind), [FrameKind.ROWS], []):
        got = [(kind, name, list(zip(*rows, strict=True))) for kind, name, rows in read_task_results(path, wanted)]
        assert got == [part for part in parts if part[2] and part[0] in wanted]


def test_many_rows_are_cut_and_stay_in_order(tmp_path: Path) -> None:
    keys = [i.to_bytes(4, "big") for i in range(10_000)]
    with TaskResultFile(str(tmp_path / "one")) as frames:
        frames.add(FrameKind.ROWS, "a", keys, keys)
    found = list(read_task_results(str(tmp_path / "one"), [FrameKind.ROWS]))
    assert len(found) > 1
    assert [key for _, _, (part, _) in found for key in part] == keys


def fail_on_the_way(path: str) -> None:
    with TaskResultFile(path) as frames:
        frames.add(FrameKind.ROWS, "a", [b"k"], [b"v"])
        raise ZeroDivisionError


def test_what_fails_on_the_way_has_no_name(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_on_the_way(str(tmp_path / "one"))
    assert list(tmp_path.iterdir()) == []


def test_damage_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "one"
    with TaskResultFile(str(path)) as frames:
        frames.add(FrameKind.ROWS, "a", [b"k"], [b"v"])
    whole = path.read_bytes()
    for data in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), whole + b"\0"):
        path.write_bytes(data)
        with pytest.raises(StoreDamaged):
            list(read_task_results(str(path), [FrameKind.ROWS]))
