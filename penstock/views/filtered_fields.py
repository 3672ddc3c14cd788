"""Filtered fields: the inputs of reducers with a condition of their own.

A cell reads a field of a value. With `where=` it reads a filtered field, which is null for each value that the
condition leaves out. Contributions keep the plain fields, and filtered ones are computed from them. Invariant: a
filtered field is written as a path that users can't write, so it stands wherever a cell names its field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from penstock.cache import canonical, unpack
from penstock.views.conditions.condition_notation import condition_text
from penstock.views.document_paths import reach
from penstock.views.field_expressions import And, Compare, IsNull, IsTrue, Not, Or, Where, where_from
from penstock.views.reducer_protocols import Path

_MARK = "\0where"


class FieldForm(Enum):
    """The form in which a filtered field gives a value that the condition keeps."""

    VALUE = "value"
    """The value of the field."""
    ONE = "one"
    """The number 1. It reads no field, so it counts values."""
    FLAG = "flag"
    """1 for true, 0 for false, and for any other value a list, which is no number."""
    BOXED = "boxed"
    """The value in a list of its own, so null is a value too."""


@dataclass(frozen=True, slots=True)
class FilteredField:
    """A field of a value, read where a condition is true. None stands for the value itself.

    >>> from penstock.views import field
    >>> paid = FilteredField(("amount",), field("paid") == True)
    >>> paid.of({"amount": 5, "paid": True}), paid.of({"amount": 5})
    (5, None)
    >>> filtered_of(paid.path) == paid
    True
    """

    field: Path | None
    where: Where | None
    form: FieldForm = FieldForm.VALUE

    def __str__(self) -> str:
        read = "1" if self.reads_nothing else ".".join(self.field or ())
        return read if self.where is None else f"{read} where {condition_text(self.where.describe())}"

    @property
    def path(self) -> Path:
        """Return it as a path, for cells."""
        where = canonical(None if self.where is None else self.where.describe()).decode("latin-1")
        return (_MARK, self.form.value, where, *(self.field or ()))

    @property
    def is_plain(self) -> bool:
        """Return True if it is the field as it is."""
        return self.where is None and self.form is FieldForm.VALUE

    @property
    def reads_nothing(self) -> bool:
        """Return True if it depends on its condition alone."""
        return self.form is FieldForm.ONE

    @property
    def fields(self) -> tuple[Path | None, ...]:
        """Return the plain fields from which it is computed."""
        own = () if self.reads_nothing else (self.field,)
        return (*own, *(() if self.where is None else self.where.paths()))

    def of(self, value: Any) -> Any:
        """Return its value in a contribution."""
        if self.where is not None and not self.where.evaluate(lambda path: reach(value, path)):
            return None
        return self.formed(reach(value, self.field or ()))

    def shown(self, value: Any) -> Any:
        """Return its value in a contribution as people read it."""
        return bool(value) if self.form is FieldForm.FLAG and value is not None else value

    def formed(self, value: Any) -> Any:
        """Return a value that the condition keeps, in the form of this field."""
        if self.form is FieldForm.VALUE:
            return value
        if self.form is FieldForm.ONE:
            return 1
        if self.form is FieldForm.BOXED:
            return [value]
        return None if value is None else int(value) if isinstance(value, bool) else [value]


@lru_cache(maxsize=1024)
def _parsed(path: Path) -> FilteredField:
    _, form, where, *field = path
    condition = unpack(where.encode("latin-1"))
    return FilteredField(tuple(field) or None, None if condition is None else where_from(condition), FieldForm(form))


def filtered_of(path: Path | None) -> FilteredField | None:
    """Return the filtered field that a path stands for, or None if it is a plain path."""
    return _parsed(path) if path is not None and path and path[0] == _MARK else None


def plain_fields(path: Path | None) -> tuple[Path | None, ...]:
    """Return the plain fields that a cell's field reads."""
    own = filtered_of(path)
    return (path,) if own is None else own.fields


def read_fields(values: Sequence[Any], path: Path | None) -> list[Any]:
    """Return a field of each of these values.

    >>> read_fields([{"a": 1}, {"a": None}, 7], ("a",))
    [1, None, None]
    """
    if path is None:
        return list(values)
    own = filtered_of(path)
    return [reach(value, path) for value in values] if own is None else list(map(own.of, values))


def under(where: Where, path: Path) -> Where:
    """Return a condition on the value at a path, as a condition on the document.

    >>> from penstock.views import field
    >>> under(field("paid") == True, ("order",)) == (field("order.paid") == True)
    True
    """
    if isinstance(where, And | Or):
        return type(where)(under(where.left, path), under(where.right, path))
    if isinstance(where, Not):
        return Not(under(where.inner, path))
    assert isinstance(where, IsTrue | IsNull | Compare), "there are no other conditions"
    return replace(where, path=path + where.path)
