"""The files of this repository, for the tests over the code."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "penstock"
_MADE = {"__pycache__", "build", "dist", "run", "results"}
_HIDDEN_BUT_OURS = {".ci", ".gitignore"}


def files(*suffixes: str, under: Path = ROOT) -> list[Path]:
    """Return every file of the tree with one of these suffixes, or all files. Skip files that tools made."""
    return [p for p in sorted(_walk(under)) if (not suffixes or p.suffix in suffixes) and "_pb2." not in p.name]


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        hidden = path.name.startswith(".") and path.name not in _HIDDEN_BUT_OURS
        made = path.is_dir() and (path.name in _MADE or path.name.endswith(".egg-info"))
        if not hidden and not made:
            yield from _walk(path) if path.is_dir() else [path]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def module_name(path: Path) -> str:
    """Return the name of a file's module: `penstock/cache/__init__.py` is penstock.cache."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the imports of the package within a file of the package, as dotted names with their lines.

    A name in a `from` import counts if it is a module that the package doesn't export. Imports inside functions and
    under TYPE_CHECKING count too.
    """
    modules = _modules()
    importer = module_name(path).split(".")
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((a.name, node.lineno) for a in node.names if a.name.split(".")[0] == "penstock")
        elif isinstance(node, ast.ImportFrom):
            package = importer if path.name == "__init__.py" else importer[:-1]
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            if source.split(".")[0] == "penstock":
                offered = _offered(source)
                dotted = [f"{source}.{a.name}" for a in node.names if a.name not in offered]
                inner = [name for name in dotted if name in modules]
                plain = len(inner) < len(node.names)
                yield from ((name, node.lineno) for name in inner + [source] * plain)


@cache
def _modules() -> frozenset[str]:
    return frozenset(module_name(p) for p in files(".py", under=PACKAGE))


@cache
def _offered(package: str) -> frozenset[str]:
    """Return the `__all__` of a package of this repository. A module has none."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    if not path.exists():
        return frozenset()
    lists = [
        node.value
        for node in parsed(path).body
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]
    ]
    return frozenset(name for names in lists for name in ast.literal_eval(names))
