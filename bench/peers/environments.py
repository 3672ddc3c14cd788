"""The environments of the peers. Each is installed once, below the cache folder of the bench.

A folder carries a hash of its contents in its name, so that a changed pin is another environment. A mark in it says
that the installation is complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
_PATIENCE = 3_600.0  # seconds for one command of an installation
_DRIVERS = "bench.peers.drivers"
_SHOWN = 300  # letters of the output of a command that failed


class NotInstalled(Exception):
    """The error if a peer can't be installed here. It names the command and its last words."""


class Environment(Protocol):
    """The programs and packages of one peer."""

    def command(self, cache: Path) -> list[str]:
        """Install what is missing, and return the command that starts the driver."""
        ...


@dataclass(frozen=True, slots=True)
class OwnPython:
    """The environment of the bench itself, for drivers that need nothing else."""

    driver: str

    def command(self, cache: Path) -> list[str]:
        return [sys.executable, "-m", f"{_DRIVERS}.{self.driver}"]


@dataclass(frozen=True, slots=True)
class PythonPackages:
    """A virtual environment with pinned packages."""

    driver: str
    packages: tuple[str, ...]

    def command(self, cache: Path) -> list[str]:
        folder = cache / f"{self.driver}-{_hash(self.packages)}"
        python = folder / "bin" / "python"
        if _begun(folder):
            _run([sys.executable, "-m", "venv", str(folder)], cache)
            _run([str(python), "-m", "pip", "install", "--quiet", *self.packages], cache)
            _finished(folder)
        return [str(python), "-m", f"{_DRIVERS}.{self.driver}"]


@dataclass(frozen=True, slots=True)
class CargoProgram:
    """A program in Rust. Its folder has a manifest with exact versions."""

    folder: str

    def command(self, cache: Path) -> list[str]:
        source = HERE / self.folder
        folder = cache / f"{self.folder}-{_hash(_texts(source))}"
        if _begun(folder):
            shutil.copytree(source, folder, dirs_exist_ok=True)
            _run([_found("cargo"), "build", "--release", "--quiet"], folder)
            _finished(folder)
        return [str(folder / "target" / "release" / "peer")]


@dataclass(frozen=True, slots=True)
class NodePackages:
    """A script for Node.js with pinned packages."""

    script: str
    packages: tuple[str, ...]

    def command(self, cache: Path) -> list[str]:
        source = HERE / self.script
        folder = cache / f"{source.stem}-{_hash([*self.packages, source.read_text('utf-8')])}"
        node = _found("node")
        if _begun(folder):
            (folder / "package.json").write_text('{"private": true}\n')
            _run([_found("npm"), "install", "--no-audit", "--no-fund", "--save-exact", *self.packages], folder)
            shutil.copy(source, folder)
            _finished(folder)
        return [node, str(folder / source.name)]


@dataclass(frozen=True, slots=True)
class MavenProgram:
    """A program in Java, which a driver starts. Its folder has a pom.xml with exact versions."""

    driver: str
    folder: str
    main: str

    def command(self, cache: Path) -> list[str]:
        source = HERE / self.folder
        folder = cache / f"{self.folder}-{_hash(_texts(source))}"
        _found("java")
        listed = folder / "classpath"
        if _begun(folder):
            shutil.copytree(source, folder, dirs_exist_ok=True)
            goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
            _run([_found("mvn"), "-B", "-q", *goals], folder)
            _finished(folder)
        jars = os.pathsep.join([str(folder / "target" / "classes"), listed.read_text()])
        return [sys.executable, "-m", f"{_DRIVERS}.{self.driver}", jars, self.main]


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _texts(folder: Path) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(folder.rglob("*")) if path.is_file()]


def _begun(folder: Path) -> bool:
    """Make the folder empty and return True, unless its installation is complete."""
    if (folder / ".complete").exists():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return True


def _finished(folder: Path) -> None:
    (folder / ".complete").touch()


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise NotInstalled(f"there is no {program} on this machine; install it")
    return path


def _run(command: list[str], folder: Path) -> None:
    shown = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{shown} took longer than {_PATIENCE:,.0f} s") from None
    if done.returncode:
        words = " ".join((done.stderr.strip() or done.stdout.strip()).split())[-_SHOWN:]
        raise NotInstalled(f"{shown} ended with code {done.returncode}: {words}")
