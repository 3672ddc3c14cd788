"""Run a few bombs on every path, and planted bugs that bombs find. `make damage ARGS="--bombs 200"` runs more."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from penstock.spout.files import streams
from tests.faults import bombs, damage
from tests.harness.planting import Bug


@pytest.mark.parametrize("way", sorted(bombs.WAYS))
def test_a_bomb_is_rejected_or_refused(way: str, tmp_path: Path) -> None:
    said = damage.in_child(partial(bombs.explode, way, random.Random(f"bombs {way}"), tmp_path))
    assert said.startswith(f"{way} ")


def test_the_campaign_finds_memory_that_a_length_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Bug("a length", "remote.socket_wire:Wire._bytes", "parts: list[bytes] = []", "parts = [bytes(size)][:0]").plant(
        monkeypatch
    )
    monkeypatch.setattr(bombs, "MEMORY", 100 << 20)
    with pytest.raises(damage.Failed, match="announce: out of memory"):
        damage.in_child(partial(bombs.explode, "announce", random.Random(2), tmp_path))


def test_the_campaign_finds_steps_that_unpack_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_ZSTD_STEP", 16 << 10)
    path = tmp_path / "bomb.jsonl.zst"
    path.write_bytes(bombs.zstandard.compress(bytes(600 << 20)))
    monkeypatch.setattr(bombs, "MEMORY", 300 << 20)
    monkeypatch.setitem(bombs.WAYS, "file", lambda engine, rng, place: bombs.loaded(engine, path))
    with pytest.raises(damage.Failed, match="file: out of memory"):
        damage.in_child(partial(bombs.explode, "file", random.Random(1), tmp_path))
