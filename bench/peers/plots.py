"""A bar chart of the rates of one workload as SVG: documents per CPU second, with the rate by the clock beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

_LEFT, _WIDTH, _BAR, _STEP = 190, 360, 9, 26
_CPU, _CLOCK, _OWN = "#1f77b4", "#aec7e8", "#d62728"


def bars(path: Path, title: str, rows: Sequence[tuple[str, float, float]], own: str) -> None:
    """Write a chart. A row has a name, the rate per CPU second and the rate by the clock."""
    most = max(max(cpu, clock) for _, cpu, clock in rows)
    height = 46 + _STEP * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="680" height="{height}" fill="#fff"/>',
        f'<text x="10" y="16" font-size="13">{escape(title)}</text>',
        '<text x="10" y="32" fill="#555">dark: documents per CPU second; light: per second by the clock</text>',
    ]
    for number, (name, cpu, clock) in enumerate(rows):
        y = 44 + _STEP * number
        colour = _OWN if name.startswith(own) else _CPU
        out.append(f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH * cpu / most:.1f}" height="{_BAR}" fill="{colour}"/>')
        light = f'width="{_WIDTH * clock / most:.1f}" height="{_BAR}" fill="{_CLOCK}"'
        out.append(f'<rect x="{_LEFT}" y="{y + _BAR + 1}" {light}/>')
        end = _LEFT + _WIDTH * max(cpu, clock) / most + 6
        out.append(f'<text x="{end:.0f}" y="{y + 12}" fill="#555">{cpu:,.0f}; {clock:,.0f}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*out, "</svg>\n"]), "utf-8")
