"""Stores that an earlier version of the package wrote open unchanged: no view is built again."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.core.stored_app import DIGESTS, PARTITIONS, app_of, document

STORED = Path(__file__).with_name("stored")


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_store_of_an_earlier_version_opens_without_migration(partitions: int, tmp_path: Path) -> None:
    with tarfile.open(STORED / f"store{partitions}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    more: dict[str, Any] = {"processes": False} if partitions > 1 else {}
    with ps.open(app_of(), tmp_path / f"store{partitions}", migrate="refuse", listen=False, **more) as engine:
        assert engine.digest() == json.loads((STORED / DIGESTS).read_text("utf-8"))[str(partitions)]
        checked = engine.check()
        assert (checked.wrong, checked.damaged) == ((), ())
        followed = {change.group: change.new for change in engine.changes() if change.view == "names"}
        with engine.snapshot() as snap:
            assert followed == dict(snap.view("names"))
        engine.put("users", document(100, 1))
        with engine.snapshot() as snap:
            assert snap.view("names")[document(100, 1)["name"]] == 15
