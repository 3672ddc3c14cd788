"""A plot of times by size, both logarithmic, as text for people and as SVG to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from pathlib import Path

WIDTH, HEIGHT = 40, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 560, 20, 220
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def bars(sizes: Sequence[int], seconds: Sequence[float]) -> str:
    """Return a bar per size, in proportion to its time. On even steps of size, linear growth has a straight edge."""
    least = min(seconds)
    rows = []
    for size, own in zip(sizes, seconds, strict=True):
        bar = "█" * round(10 * own / least)
        rows.append(f"{size:>12,}  {1e6 * own:>8,.0f} µs  {bar}")
    return "\n".join(rows)


def svg(
    path: Path, title: str, sizes: Sequence[int], lines: dict[str, Sequence[float]], called: Sequence[str] = ()
) -> None:
    """Write the plot: sizes to the right in powers of ten, perhaps under other names, times upwards from 0."""
    most = 1.15 * max(max(own) for own in lines.values())
    marks = [(most * step / 4, f"{1e6 * most * step / 4:,.0f} µs") for step in range(5)]
    _drawn(path, title, sizes, lines, marks, lambda second: second / most, called)


def svg_by_powers(path: Path, title: str, sizes: Sequence[int], lines: dict[str, Sequence[float]]) -> None:
    """Write the plot: sizes to the right in powers of ten, seconds upwards in powers of ten too."""
    every = [log10(second) for own in lines.values() for second in own]
    low, high = floor(min(every)), ceil(max(every))
    marks = [(10.0**power, f"{10.0**power:g} s") for power in range(low, high + 1)]
    _drawn(path, title, sizes, lines, marks, lambda second: (log10(second) - low) / (high - low))


def _drawn(
    path: Path,
    title: str,
    sizes: Sequence[int],
    lines: dict[str, Sequence[float]],
    marks: Sequence[tuple[float, str]],
    height: Callable[[float], float],
    called: Sequence[str] = (),
) -> None:
    low, high = log10(min(sizes)), log10(max(sizes))

    def x(size: int) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (log10(size) - low) / (high - low)

    def y(second: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * height(second)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<text x="{_LEFT}" y="12">{title}</text>',
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="#888"/>',
    ]
    for size, name in zip(sizes, called or [f"{size:,}" for size in sizes], strict=True):
        out.append(f'<text x="{x(size):.0f}" y="{_BOTTOM + 16}" text-anchor="middle">{name}</text>')
    for mark, value in marks:
        out.append(f'<text x="{_LEFT - 6}" y="{y(mark) + 4:.0f}" text-anchor="end">{value}</text>')
    for (name, own), colour in zip(lines.items(), _COLOURS):
        points = " ".join(f"{x(size):.1f},{y(second):.1f}" for size, second in zip(sizes, own, strict=True))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{_RIGHT + 6}" y="{y(own[-1]) + 4:.0f}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>\n"]), "utf-8")
