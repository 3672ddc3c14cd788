"""The code itself: sizes, the direction of imports, dead files, and what must not stand in the tree."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from penstock.cli.main import ENTRIES
from tests.tidy.tree import PACKAGE, ROOT, files, imports, module_name, parsed

MAX_FILE, MAX_FUNCTION = 400, 70

# A room imports only from rooms of a smaller rank; two of one rank don't know each other.
RANK = {
    "cache": 0,
    "views": 1,
    "mapreduce": 2,
    "gateway": 3,
    "recovery": 4,
    "kafka": 4,
    "spout": 5,
    "sink": 5,
    "engine": 6,
    "spark": 7,
    "testing": 7,
    "cli": 8,
}
ROOMS = sorted(p.parent for p in PACKAGE.glob("*/__init__.py"))


def _shown(path: Path, line: int, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {what}"


def _wrong_import(here: str, target: str) -> str | None:
    """Why the module `here` may not import `target`, if it may not."""
    mine, theirs = here.removesuffix(".__main__").split(".")[1:2], target.split(".")[1:2]
    if not mine:
        return None if len(target.split(".")) == 2 else f"imports {target}, past the room's __init__"
    if not theirs:
        return "imports the package itself, which stands above every room"
    if mine == theirs:
        return None
    if mine[0] not in RANK or theirs[0] not in RANK:
        return f"imports {target}, and one of the two is no known room"
    if RANK[theirs[0]] >= RANK[mine[0]]:
        return f"imports {target}: a room imports only from rooms below it"
    return None if len(target.split(".")) == 2 else f"imports {target}, past the room's __init__"


def test_imports_point_one_way() -> None:
    wrong = [
        _shown(path, line, why)
        for path in files(".py", under=PACKAGE)
        for target, line in imports(path)
        if (why := _wrong_import(module_name(path), target))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("here", "target", "allowed"),
    [
        ("penstock.engine.engine", "penstock.cache", True),
        ("penstock.engine.engine", "penstock.engine.batch", True),
        ("penstock", "penstock.engine", True),
        ("penstock.cache.store", "penstock.engine", False),
        ("penstock.spout.record", "penstock.sink", False),
        ("penstock.engine.engine", "penstock.cache.keys", False),
        ("penstock.cache.store", "penstock", False),
        ("penstock", "penstock.engine.engine", False),
    ],
)
def test_the_rule_of_imports_sees(here: str, target: str, allowed: bool) -> None:
    assert (_wrong_import(here, target) is None) is allowed


def test_a_module_that_a_room_hides_behind_its_name_is_told_apart() -> None:
    found = {target for target, _ in imports(PACKAGE / "engine" / "catalog.py")}
    assert "penstock.cache" in found
    assert "penstock.cache.seal" not in found, "the room offers a function of this name"
    assert "penstock.engine.core" in {target for target, _ in imports(PACKAGE / "engine" / "engine.py")}


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


def test_every_folder_of_the_package_is_a_known_room() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(RANK)
    assert {p.name for p in ROOMS} == folders


def test_no_absolute_path_of_a_machine() -> None:
    # Put together here, so that this file doesn't find itself.
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
    """A file's text; nothing for one that isn't text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return ""
