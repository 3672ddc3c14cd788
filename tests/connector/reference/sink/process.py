"""The reference sink `aloc_sink` as a process of its own, from the checkout that `PENSTOCK_WALLAROO` names.

The reference sink evaluates its log and passes worker names to a shell. So it works in a private folder, and its
workers have names of `[a-z0-9]+` only. It listens on loopback, and it is ended by its process id.
"""

from __future__ import annotations

import ast
import atexit
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import venv
from functools import cache
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

VARIABLE = "PENSTOCK_WALLAROO"
_LIBRARY, _PROGRAM = "machida/lib", "testing/correctness/tests/aloc_sink/aloc_sink"
_NAME = re.compile("[a-z0-9]+")


def checkout() -> Path:
    """Return the folder of the checkout, or raise an error that names the next step."""
    folder = Path(os.environ.get(VARIABLE) or "missing").absolute()
    if not (folder / _PROGRAM).is_file():
        raise FileNotFoundError(f"{VARIABLE} names no checkout of WallarooLabs/wallaroo with {_PROGRAM}: {folder}")
    return folder


@cache
def interpreter() -> str:
    """Return a Python with asyncore and asynchat. Python 3.12 dropped both, so a venv gets them from packages."""
    if importlib.util.find_spec("asyncore") and importlib.util.find_spec("asynchat"):
        return sys.executable
    folder = tempfile.mkdtemp(prefix="penstock-reference-")
    atexit.register(shutil.rmtree, folder)
    venv.create(folder, with_pip=True)
    python = str(Path(folder, "bin", "python"))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "pyasyncore", "pyasynchat"], check=True)
    return python


@cache
def codec() -> Any:
    """Return the module of the checkout that encodes and decodes frames. It is loaded by its path."""
    file = checkout() / _LIBRARY / "wallaroo/experimental/connector_wire_messages.py"
    spec = importlib.util.spec_from_file_location("connector_wire_messages", file)
    assert spec is not None, file
    assert spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment() -> dict[str, str]:
    """Return the environment of a program of the checkout."""
    library = str(checkout() / _LIBRARY)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": library, "PYTHONDONTWRITEBYTECODE": "1"}


class ReferenceSink:
    """One reference sink with a folder of its own. Use it in a `with` statement."""

    def __init__(self, folder: Path, refused: frozenset[str] = frozenset(), workers: tuple[str, ...] = ("w1",)) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        rules = [("txnid-regexp", f"^{re.escape(txn)}$", False, False, False) for txn in sorted(refused)]
        for worker in workers if rules else ():
            self._file("rules", worker).write_text("".join(f"{rule}\n".replace(" ", "") for rule in rules))
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> ReferenceSink:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def _file(self, *parts: str) -> Path:
        assert all(_NAME.fullmatch(part) for part in parts), parts
        return self.folder / ".".join(parts)

    def _start(self) -> None:
        with socket.create_server(("127.0.0.1", self._port)) as free:  # a restart keeps the port
            self._port = free.getsockname()[1]
        command = [interpreter(), "-W", "ignore", str(checkout() / _PROGRAM)]
        self._process = subprocess.Popen(
            [*command, str(self._file("out")), str(self._file("rules")), str(self._port)],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        started = threading.Event()
        threading.Thread(target=self._report, args=(self._process, started), daemon=True).start()
        assert started.wait(PATIENCE)
        assert self._process.poll() is None, self._file("messages").read_text()

    def _report(self, process: subprocess.Popen[bytes], started: threading.Event) -> None:
        """Copy the process's messages to a file until it ends."""
        assert process.stderr is not None
        with process.stderr, self._file("messages").open("ab", buffering=0) as messages:
            for line in process.stderr:
                messages.write(line)
                if b"Process started" in line:
                    started.set()
        process.wait(PATIENCE)
        started.set()

    def end(self) -> None:
        """End the process without notice, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def restart(self) -> None:
        self.end()
        self._start()

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def output(self, worker: str) -> bytes:
        """Return the bytes of a worker's file. Only those up to the last commit are output."""
        path = self._file("out", worker)
        return path.read_bytes() if path.exists() else b""

    def log(self, worker: str) -> list[list[Any]]:
        """Return the records of a worker's transaction log, each without its time."""
        path = self._file("out", worker, "txnlog")
        lines = path.read_text().splitlines() if path.exists() else []
        return [ast.literal_eval(line)[1:] for line in lines]

    def left(self, worker: str) -> list[bytes]:
        """Return the files that were set aside when the worker left."""
        paths = sorted(self.folder.glob(f"out.{worker}.*"))
        return [path.read_bytes() for path in paths if not path.name.endswith("txnlog")]

    def committed(self, worker: str) -> bytes:
        ends = [record[2] for record in self.log(worker) if record[0] == "2-ok"]
        return self.output(worker)[: ends[-1] if ends else 0]
