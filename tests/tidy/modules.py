"""Write `docs/design/modules.md`: each module of the package with the first sentence of its docstring.

python -m tests.tidy.modules
"""

import ast
import re
from pathlib import Path

from tests.tidy.tree import PACKAGE, ROOT, files, parsed

PAGE = ROOT / "docs" / "design" / "modules.md"
_HEAD = """# Modules

One line per module: the first sentence of its docstring. `python -m tests.tidy.modules` writes this page.
"""


def page() -> str:
    """Return the page: a table for each room, in the order of names."""
    rooms: dict[Path, list[Path]] = {}
    for path in files(".py", under=PACKAGE):
        rooms.setdefault(path.parent, []).append(path)
    return _HEAD + "".join(_table(room, paths) for room, paths in sorted(rooms.items()))


def _table(room: Path, paths: list[Path]) -> str:
    name = room.relative_to(ROOT)
    rows = [f"| `{path.stem}` | {_cell(path)} |\n" for path in paths if path.stem != "__init__"]
    about = _cell(room / "__init__.py").replace(r"\|", "|")
    return f"\n## `{name}/`\n\n{about}\n\n| module | subject |\n|---|---|\n{''.join(rows)}"


def _cell(path: Path) -> str:
    """Return the first sentence of a module's docstring as one cell of a table."""
    paragraph = (ast.get_docstring(parsed(path)) or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", " ".join(paragraph.split()))[0]
    return sentence.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
