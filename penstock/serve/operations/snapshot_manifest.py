"""The manifest of a snapshot: its files with sizes and digests, and the state of the store in it.

Snapshot writes it last. A program that uploads snapshots waits for this file, and Restore compares the files with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from penstock.cache import PenstockError
from penstock.engine import open_engine
from penstock.views import App, Progress

__all__ = ["MANIFEST", "check_manifest", "write_manifest"]

MANIFEST = "manifest.json"
_RANGE = f"{0:016x}-{1 << 64:017x}"
_BYTES = 1 << 20


def write_manifest(app: App, folder: str, tell: Progress) -> dict[str, Any]:
    """Write the manifest of a complete copy of a store, and return it."""
    files = _files(folder, tell)
    with open_engine(app, folder, readonly=True) as engine:
        status, digest = engine.status(), engine.digest()
    parts = status.get("partitions", ())
    starts = [int(part["start"], 16) for part in parts] or [0]
    ends = [*starts[1:], 1 << 64]
    found = {
        "app": status["app"],
        "range": _RANGE,
        "ranges": [f"{start:016x}-{end:016x}" for start, end in zip(starts, ends, strict=True)],
        "position": status["position"],
        "epoch": status["epoch"],
        "log_offset": 0,
        "digest": digest,
        "files": files,
    }
    part = Path(folder, f"{MANIFEST}.part")
    with part.open("w") as file:
        json.dump(found, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, Path(folder, MANIFEST))
    return found


def check_manifest(folder: str, tell: Progress) -> None:
    """Compare the files of a snapshot with its manifest. PenstockError names the first one that differs."""
    try:
        wanted = json.loads(Path(folder, MANIFEST).read_text())["files"]
    except FileNotFoundError:
        raise PenstockError(
            f"{folder} has no {MANIFEST}, so the snapshot is not complete; make another one, or run `penstock restore` "
            "for a copy that `penstock snapshot` made"
        ) from None
    except (KeyError, TypeError, ValueError):
        raise PenstockError(f"{folder}/{MANIFEST} is damaged; restore another snapshot") from None
    found = {own["name"]: own for own in _files(folder, tell)}
    for own in wanted:
        if found.get(own["name"]) != own:
            raise PenstockError(f"{folder}/{own['name']} is not the file of the manifest; restore another snapshot")


def _files(folder: str, tell: Progress) -> list[dict[str, Any]]:
    """Return name, size and SHA-256 of each file with rows or the layout of partitions."""
    paths = sorted(
        path
        for path in Path(folder).rglob("*")
        if path.is_file() and not path.name.startswith((MANIFEST, "lock.mdb", "owner"))
    )
    sizes = [path.stat().st_size for path in paths]
    out: list[dict[str, Any]] = []
    done, total = 0, sum(sizes)
    for path, size in zip(paths, sizes, strict=True):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while data := file.read(_BYTES):
                digest.update(data)
                done += len(data)
                tell(done, total)
        out.append({"name": str(path.relative_to(folder)), "bytes": size, "sha256": digest.hexdigest()})
    return out
