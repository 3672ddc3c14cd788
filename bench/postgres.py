"""A PostgreSQL server of the bench, for comparison: on loopback, in a folder that is deleted with it.

If its programs are not installed, the comparison names them and is left out. Its settings are careful: every commit is
synced, and there is memory enough for the measured data.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROGRAMS = ("postgres", "initdb", "psql", "pgbench")
_USER = "postgres"  # the server refuses to run as root
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "512MB",
    "work_mem": "64MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "synchronous_commit": "on",
    "fsync": "on",
}


class NoPostgres(Exception):
    """The error with the reason why there is no server."""


def programs() -> Path:
    """Return the folder of its programs. Raise NoPostgres if there is none."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += [(folder / "postgres").resolve().parent for folder in folders]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if all((folder / name).exists() for name in _PROGRAMS):
            return folder
    raise NoPostgres("PostgreSQL is not installed")


class Postgres:
    """A running server."""

    def __init__(self, bin_folder: Path, port: int) -> None:
        self._bin = bin_folder
        self._port = port

    @property
    def address(self) -> str:
        """Return the address for a client library."""
        return f"host=127.0.0.1 port={self._port} user={_USER} dbname=postgres"

    @property
    def version(self) -> str:
        """Return its name and version."""
        return self.ask("SHOW server_version").split()[0]

    def ask(self, sql: str) -> str:
        """Return the answer to one statement."""
        return self.run([sql.encode()])

    def run(self, script: Iterable[bytes]) -> str:
        """Run a script in one session; it stops at the first error."""
        psql = subprocess.Popen(
            [*self._client("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, wrong = psql.communicate(b"".join(script))
        if psql.returncode:
            raise NoPostgres(wrong.decode(errors="replace").strip())
        return out.decode().strip()

    def timed(self, script: Iterable[bytes]) -> float:
        """Return the seconds of a script, without the start of its session."""
        whole = b"".join(script)
        began = time.perf_counter()
        self.run([b"SELECT 1;"])
        alone = time.perf_counter() - began
        began = time.perf_counter()
        self.run([whole])
        return max(0.0, time.perf_counter() - began - alone)

    def latency(self, script: str, count: int, folder: Path) -> float:
        """Return the seconds of one transaction of a script, repeated in one session, by pgbench."""
        path = folder / "transaction.sql"
        path.write_text(script)
        command = [*self._client("pgbench"), "-n", "-M", "prepared", "-t", str(count), "-f", str(path)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        line = next(line for line in said.splitlines() if line.startswith("latency average"))
        return float(line.split("=")[1].split()[0]) / 1e3

    def _client(self, program: str) -> list[str]:
        own = [str(self._bin / program), "-h", "127.0.0.1", "-p", str(self._port), "-U", _USER]
        return [*own, *(["-d", "postgres"] if program == "psql" else ["postgres"])]


@contextmanager
def server(folder: Path, more: dict[str, str] | None = None, exists: bool = False) -> Iterator[Postgres]:
    """Run a server while the block runs. `more` are settings beside those of every server.

    With `exists` the folder has the data of a server that was killed.
    """
    own = programs()
    user = None
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam(_USER)
        except KeyError:
            raise NoPostgres(f"PostgreSQL does not run as root, and there is no user {_USER!r}") from None
    data, port = folder / "data", _free_port()
    as_user: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    if not exists:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        _make(own, data, as_user)
    else:
        (data / "postmaster.pid").unlink(missing_ok=True)  # the id of a killed server may be in use again
    settings = [part for name, value in (_SETTINGS | (more or {})).items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(own / "postgres"), "-D", str(data), "-p", str(port), *settings],
            cwd=folder,
            stdout=log,
            stderr=log,
            **as_user,
        )
        try:
            found = Postgres(own, port)
            _wait(found, process)
            yield found
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _make(own: Path, data: Path, as_user: dict[str, Any]) -> None:
    """Make the folder of an empty database."""
    made = subprocess.run(
        [str(own / "initdb"), "-D", str(data), "-U", _USER, "-A", "trust", "--no-locale", "-E", "UTF8"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=data.parent,
        check=False,
        **as_user,
    )
    if made.returncode:
        raise NoPostgres(f"initdb failed: {made.stderr.decode(errors='replace').strip()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(found: Postgres, process: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            found.ask("SELECT 1")
            return
        except NoPostgres:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)
