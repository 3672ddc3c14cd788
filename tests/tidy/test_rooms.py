"""Rooms and their packages: the direction of imports, cycles, sizes of folders, and names of files."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tidy.rooms import COMMON, CROWDED, CYCLES, FILE_CYCLES, MIRRORS, MOST, OPEN, RANK, UPWARD
from tests.tidy.tree import PACKAGE, ROOT, files, imports, module_name, parsed

ROOMS = sorted(p.parent for p in PACKAGE.glob("*/__init__.py"))


def wrong_import(importer: str, target: str) -> str | None:
    """Return why the module `here` may not import `target`, or None if it may."""
    mine, theirs = importer.removesuffix(".__main__").split(".")[1:2], target.split(".")[1:2]
    public = len(target.split(".")) == 2 or target.startswith(OPEN)
    if not mine:
        return None if public else f"imports {target}, past the room's __init__"
    if not theirs:
        return "imports the package itself, which stands above every room"
    if mine == theirs:
        return None
    if mine[0] not in RANK or theirs[0] not in RANK:
        return f"imports {target}, and one of the two is no known room"
    if RANK[theirs[0]] >= RANK[mine[0]]:
        return f"imports {target}: a room imports only from rooms below it"
    if importer == f"penstock.{mine[0]}" and target.startswith(OPEN):
        return None
    return None if public else f"imports {target}, past the room's __init__"


def test_imports_point_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {why}"
        for path in files(".py", under=PACKAGE)
        for target, line in imports(path)
        if (why := wrong_import(module_name(path), target)) and (module_name(path), target) not in UPWARD
    ]
    assert not wrong, "\n".join(wrong)


def test_each_upward_import_of_the_list_is_still_there() -> None:
    upward = {
        (module_name(path), target)
        for path in files(".py", under=PACKAGE)
        for target, _ in imports(path)
        if wrong_import(module_name(path), target)
    }
    assert set(UPWARD) - upward == set(), "take these out of the list"


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        ("penstock.engine.engine", "penstock.cache", True),
        ("penstock.engine.engine", "penstock.engine.calls.envelopes", True),
        ("penstock.engine.engine", "penstock.core", True),
        ("penstock.engine.engine", "penstock.core.commit", False),
        ("penstock", "penstock.engine", True),
        ("penstock.cache.store.protocol", "penstock.engine", False),
        ("penstock.core.metadata.catalog", "penstock.engine.engine", False),
        ("penstock.core.metadata.catalog", "penstock.generations.build", False),
        ("penstock.spout.record", "penstock.sink", False),
        ("penstock.engine.engine", "penstock.cache.encoding.keys", False),
        ("penstock.cache.store.protocol", "penstock", False),
        ("penstock", "penstock.engine.engine", False),
    ],
)
def test_the_rule_of_imports_sees(importer: str, target: str, allowed: bool) -> None:
    assert (wrong_import(importer, target) is None) is allowed


def test_a_name_that_a_room_offers_is_no_module() -> None:
    found = {target for target, _ in imports(PACKAGE / "core" / "metadata" / "catalog.py")}
    assert "penstock.cache" in found
    assert "penstock.cache.seal" not in found
    assert "penstock.engine.group_commit" in {target for target, _ in imports(PACKAGE / "engine" / "engine.py")}


def cycles(edges: Iterable[tuple[str, str]]) -> set[frozenset[str]]:
    """Return the groups of names that reach each other."""
    after: dict[str, set[str]] = defaultdict(set)
    for importer, reachable in edges:
        after[importer].add(reachable)

    def reach(start: str) -> set[str]:
        seen, left = set(), [start]
        while left:
            for name in after[left.pop()] - seen:
                seen.add(name)
                left.append(name)
        return seen

    reached = {name: reach(name) for name in list(after)}
    loops = {name: frozenset(o for o in reachable if name in reached.get(o, ())) for name, reachable in reached.items()}
    return {loop for name, loop in loops.items() if len(loop) > 1}


def test_a_cycle_is_found() -> None:
    assert cycles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "e")]) == {frozenset("abc")}


def room_edges() -> set[tuple[str, str]]:
    """Return the imports between modules of one room, with those for types alone; other rooms are below or above."""
    modules = {module_name(path) for path in files(".py", under=PACKAGE) if path.name != "__init__.py"}
    return {
        (importer, target)
        for path in files(".py", under=PACKAGE)
        if (importer := module_name(path)) in modules
        for target, _ in imports(path)
        if target in modules and importer.split(".")[1] == target.split(".")[1]
    }


def test_packages_of_a_room_have_no_cycle_but_those_of_the_list() -> None:
    edges = {(importer.rpartition(".")[0], target.rpartition(".")[0]) for importer, target in room_edges()}
    assert cycles(edges) == set(CYCLES)


def test_files_of_a_room_have_no_cycle_but_those_of_the_list() -> None:
    assert cycles(room_edges()) == set(FILE_CYCLES)


def test_folders_are_small() -> None:
    sizes = Counter(
        str(path.parent.relative_to(ROOT))
        for folder in (PACKAGE, ROOT / "tests")
        for path in files(".py", under=folder)
        if path.name != "__init__.py"
    )
    assert {folder for folder, size in sizes.items() if size > MOST} == set(CROWDED)


def test_two_rooms_have_no_file_of_one_name() -> None:
    rooms: dict[str, set[str]] = defaultdict(set)
    for path in files(".py", under=PACKAGE):
        place = path.relative_to(PACKAGE).parts
        if len(place) > 1 and path.stem not in COMMON and place[0] not in MIRRORS:
            rooms[path.stem].add(place[0])
    assert {name: where for name, where in rooms.items() if len(where) > 1} == {}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_no_module_has_the_name_of_something_that_its_room_offers(room: Path) -> None:
    offered = {
        alias.asname or alias.name
        for node in ast.walk(parsed(room / "__init__.py"))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert offered & {path.stem for path in room.iterdir()} == set()


def test_every_folder_of_the_package_is_a_known_room() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(RANK)
    assert {p.name for p in ROOMS} == folders
