"""The text of a described condition, for people: in `explain`, in reasons of migrations, and in names of fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.cache import repr_of


def condition_text(where: Mapping[str, Any], literal: Callable[[Any], str] = repr_of) -> str:
    """Return the description of a condition as text. `literal` writes the values of its comparisons.

    >>> from penstock.views import field
    >>> condition_text((~((field("a") > 0) & (field("b") == "x"))).describe())
    "not (a > 0 and b == 'x')"
    """
    form = where["is"]
    if form in ("and", "or"):
        parts = [
            f"({condition_text(part, literal)})"
            if part["is"] in ("and", "or") and part["is"] != form
            else condition_text(part, literal)
            for part in (where["left"], where["right"])
        ]
        return f" {form} ".join(parts)
    if form == "not":
        inner = where["inner"]
        if inner["is"] == "null":
            return f"{'.'.join(inner['path'])} != null"
        text = condition_text(inner, literal)
        return f"not ({text})" if inner["is"] != "true" else f"not {text}"
    path = ".".join(where["path"])
    if form == "null":
        return f"{path} == null"
    if form == "true":
        return path
    value = where["value"]
    return f"{path} {form} {value[1] if isinstance(value, list) else literal(value)}"
