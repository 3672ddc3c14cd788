"""Write the diagrams in `docs/design/connector.md`: the states of each role, drawn from its table.

python -m tests.tidy.connector_diagram
"""

from __future__ import annotations

from collections import defaultdict

from penstock.connector import (
    COORDINATOR,
    PARTICIPANT,
    SOURCE_ACCEPTOR,
    SOURCE_CONNECTOR,
    SessionState,
    Table,
    name_of,
)
from tests.tidy.tree import ROOT

PAGE = ROOT / "docs" / "design" / "connector.md"
TABLES = {
    "Participant": PARTICIPANT,
    "Coordinator": COORDINATOR,
    "Source connector": SOURCE_CONNECTOR,
    "Source acceptor": SOURCE_ACCEPTOR,
}
_START = "<!-- `python -m tests.tidy.connector_diagram` writes the rest of this page. -->\n"


def diagrams() -> str:
    """Return the generated part of the page."""
    return "".join(f"\n### {role}\n\n```mermaid\n{_diagram(table)}```\n" for role, table in TABLES.items())


def written(page: str) -> str:
    """Return the page with its diagrams."""
    return page.partition(_START)[0] + _START + diagrams()


def _diagram(table: Table) -> str:
    """Return one diagram: an arrow for each pair of states, with the frames and commands that lead along it."""
    arrows: dict[tuple[SessionState, SessionState], list[str]] = defaultdict(list)
    for (state, kind), rule in table.items():
        for after in rule.after or (state,):
            arrows[state, after].append(name_of(kind))
    first = next(iter(table))[0]
    lines = [f"    {a.value} --> {b.value}: {', '.join(names)}\n" for (a, b), names in arrows.items()]
    return f"stateDiagram-v2\n    [*] --> {first.value}\n" + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
