"""A small plot without axes, as SVG. A module of the page appends points to it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

__all__ = ["WIDTH", "points_of", "sparkline"]

WIDTH, _HEIGHT, _POINTS = 120, 28, 60


def sparkline(name: str, values: Sequence[float], label: str) -> Markup:
    """Return a plot of the last values. `name` is the name by which live values come.

    >>> print(sparkline("records", [0, 5, 10], "puts"))
    <svg class="sparkline" data-chart="records" data-values="0 5 10" viewBox="0 0 120 28" \
preserveAspectRatio="none" role="img" aria-label="puts"><polyline points="115.9,27.0 118.0,14.0 120.0,1.0"/></svg>
    """
    last = list(values[-_POINTS:])
    return Markup(
        '<svg class="sparkline" data-chart="{}" data-values="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" '
        'role="img" aria-label="{}">'
        '<polyline points="{}"/></svg>'
    ).format(name, " ".join(f"{one:g}" for one in last), WIDTH, _HEIGHT, label, points_of(last))


def points_of(values: Sequence[float]) -> str:
    """Return the points of a line whose last value is at the right edge. The greatest value is at the top."""
    top = max([*values, 1e-9])
    step = WIDTH / (_POINTS - 1)
    first = WIDTH - step * (len(values) - 1)
    return " ".join(f"{first + i * step:.1f},{_HEIGHT - 1 - (_HEIGHT - 2) * v / top:.1f}" for i, v in enumerate(values))
