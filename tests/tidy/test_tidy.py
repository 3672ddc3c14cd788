"""Check the code itself: sizes, dead files, and text that must not be in the tree."""

import ast
import importlib
import json
import re
from pathlib import Path

import pytest

from penstock.cli.program import ENTRIES
from tests.tidy.tree import PACKAGE, ROOT, files, imports, module_name, parsed

MAX_FILE, MAX_FUNCTION = 400, 70
ROOMS = sorted(p.parent for p in PACKAGE.glob("*/__init__.py"))


def _shown(path: Path, line: int, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {what}"


def test_files_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {n} lines"
        for path in files(".py")
        if (n := len(path.read_text("utf-8").splitlines())) > MAX_FILE
    ]
    assert not long, "\n".join(long)


def test_functions_are_short() -> None:
    long = [
        _shown(path, node.lineno, f"{node.name} has {n} lines")
        for path in files(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (n := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_every_module_is_imported_by_another() -> None:
    used = {target for path in files(".py", under=PACKAGE) for target, _ in imports(path)}
    used |= {entry.where.partition(":")[0] for entry in ENTRIES.values()}
    unused = [
        module_name(path)
        for path in files(".py", under=PACKAGE)
        if path.name not in ("__init__.py", "__main__.py") and module_name(path) not in used
    ]
    assert not unused, "\n".join(unused)


@pytest.mark.parametrize("path", files(".py", under=PACKAGE), ids=module_name)
def test_a_module_opens_with_its_idea(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), f"{path.relative_to(ROOT)} has no docstring"


@pytest.mark.parametrize("room", [PACKAGE, *ROOMS], ids=lambda p: p.name)
def test_a_room_names_what_is_public(room: Path) -> None:
    module = importlib.import_module(module_name(room / "__init__.py"))
    names = list(module.__all__)
    assert len(set(names)) == len(names)
    assert [n for n in names if not hasattr(module, n)] == []
    assert [n for n in names if n.startswith("_")] == []


def test_no_absolute_path_of_a_machine() -> None:
    # Assembled here, so that this file doesn't find itself.
    machine = re.compile("|".join(re.escape("/" + d + "/") for d in ("home", "root", "work", "Users", "tmp")))
    wrong = [
        _shown(path, number, line.strip()[:80])
        for path in files()
        for number, line in enumerate(_text(path).splitlines(), 1)
        if machine.search(line) or str(ROOT) in line
    ]
    assert not wrong, "\n".join(wrong)


def test_pins_and_settings_name_no_address() -> None:
    pins = [*files(under=ROOT / "requirements"), *files(".toml", ".cfg", ".lock", ".ini")]
    wrong = [
        _shown(path, number, line.strip()[:80])
        for path in pins
        for number, line in enumerate(_text(path).splitlines(), 1)
        if "://" in line or line.startswith(("-i ", "--index", "--extra-index", "--find-links", "--trusted-host"))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_packages_of_node_have_a_hash_and_no_registry() -> None:
    locks = [path for path in files(".json") if path.name == "package-lock.json"]
    assert locks
    for path in locks:
        packages = {name: own for name, own in json.loads(_text(path))["packages"].items() if name}
        assert len(packages) > 10
        wrong = [name for name, own in packages.items() if "resolved" in own or "integrity" not in own]
        assert not wrong, f"{_shown(path, 1, 'npm install')} with omit-lockfile-registry-resolved: {wrong}"


def test_every_pin_has_a_hash() -> None:
    pins = re.split(r"\n(?=\S)", (ROOT / "requirements" / "dev.txt").read_text("utf-8").strip())
    assert len(pins) > 10
    assert [p.splitlines()[0] for p in pins if "==" not in p or "--hash=sha256:" not in p] == []


def test_the_package_silences_no_checker_and_leaves_nothing_open() -> None:
    mark = re.compile(
        "|".join(("type: ?ignore", "pyright: ?ignore", "# ?no" + "qa", "TO" + "DO", "FIX" + "ME", "XX" + "X"))
    )
    wrong = [
        _shown(path, number, line.strip()[:80])
        for path in files(".py", under=PACKAGE)
        for number, line in enumerate(_text(path).splitlines(), 1)
        if mark.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def _text(path: Path) -> str:
    """Return a file's text, or nothing if it is not text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return ""
