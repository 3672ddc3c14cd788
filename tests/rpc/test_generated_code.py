"""The generated code is the one that protoc makes of `penstock.proto`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import PACKAGE

FOLDER = PACKAGE / "rpc"
MADE = ("penstock_pb2.py", "penstock_pb2.pyi")


def generated(definition: Path, out: Path) -> dict[str, str]:
    """Return the code of a definition by the name of its file."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{definition.parent}", f"--python_out={out}"]
    subprocess.run([*command, f"--pyi_out={out}", definition.name], check=True)
    return {name: (out / name).read_text() for name in MADE}


def test_the_committed_code_is_current(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    committed = {name: (FOLDER / name).read_text() for name in MADE}
    assert generated(FOLDER / "penstock.proto", tmp_path) == committed, "run `make stubs`"


def test_a_changed_definition_is_found(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    text = (FOLDER / "penstock.proto").read_text()
    (tmp_path / "penstock.proto").write_text(text.replace("uint64 lag = 7;", "uint64 lag = 17;"))
    assert generated(tmp_path / "penstock.proto", tmp_path)["penstock_pb2.py"] != (FOLDER / MADE[0]).read_text()
