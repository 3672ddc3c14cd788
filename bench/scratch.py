"""The folder of one run: made in the folder that the user names, and deleted at the end with nothing else."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["scratch"]


@contextmanager
def scratch(parent: str) -> Iterator[Path]:
    """Make a folder in `parent` for one run, and delete it afterwards. Other files of `parent` stay as they are."""
    Path(parent).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    folder.chmod(0o755)  # a peer may run as another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
