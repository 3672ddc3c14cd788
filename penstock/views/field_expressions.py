"""Field expressions: `where=` conditions on a document's fields, evaluated without a user's Python function.

An expression is an immutable tree, so a catalog can store it, columns can evaluate it, and Spark can run it.
Invariants:

- a comparison is only true between two values of one family: numbers (Decimals included, by exact value), text, bytes
  or bool. They compare in group order: the one NaN equals itself and comes after +inf;
- between different families only `!=` is true. With a null value every comparison is false, even `!=`;
- `== None` is true if the value is null or absent, and `!= None` if it is neither. No other comparison accepts None;
- `~` is a plain negation, so `~(field("a") > 0)` selects documents without an `a`;
- `where_from(w.describe())` is the same condition as `w`;
- an expression has no truth value: `and`, `or`, `not` and chained comparisons raise instead of dropping a part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from penstock.cache import DefinitionError, ValueKind, key_text, normalise, repr_by_fields, value_text
from penstock.views.conditions.comparisons import COMPARE, Family, Op, family_of
from penstock.views.document_paths import parse_path
from penstock.views.reducer_protocols import Path

Getter = Callable[[Path], object]


class _Logic(ABC):
    """An operand of `&`, `|` and `~`."""

    __slots__ = ()

    @abstractmethod
    def _where(self) -> Where: ...

    def __and__(self, other: Where | Field) -> Where:
        return And(self._where(), _operand(other, "&"))

    def __or__(self, other: Where | Field) -> Where:
        return Or(self._where(), _operand(other, "|"))

    def __invert__(self) -> Where:
        return Not(self._where())

    def __rand__(self, other: object) -> NoReturn:
        _operand(other, "&")
        raise AssertionError(other)

    def __ror__(self, other: object) -> NoReturn:
        _operand(other, "|")
        raise AssertionError(other)

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            "a field expression has no truth value; instead of `and`, `or`, `not` use &, |, ~ with each comparison "
            "in parentheses: (ps.field('a') > 0) & (ps.field('a') < 9)"
        )


def _operand(other: object, sign: str) -> Where:
    if not isinstance(other, _Logic):
        raise DefinitionError(
            f"{key_text(other)} stands beside {sign}, where a field expression should; put each "
            "comparison in parentheses: "
            f"(ps.field('a') > 0) {sign} (ps.field('b') == 'x')"
        )
    return other._where()


class Where(_Logic):
    """A condition on a document.

    >>> late = (field("paid") == False) & (field("age") > 30)
    >>> late.evaluate({("paid",): False, ("age",): 31}.get)
    True
    """

    __slots__ = ()

    @abstractmethod
    def evaluate(self, get: Getter) -> bool:
        """Return whether the condition is true. `get(path)` returns a document's value, None if it is absent."""

    @abstractmethod
    def paths(self) -> tuple[Path, ...]:
        """Return the paths that the condition reads, in order, each once."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the condition as plain data, which `where_from` reads."""

    def _where(self) -> Where:
        return self


@dataclass(frozen=True, slots=True)
class IsTrue(Where):
    """True if the field is exactly true."""

    path: Path

    def evaluate(self, get: Getter) -> bool:
        return get(self.path) is True

    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def describe(self) -> dict[str, object]:
        return {"is": "true", "path": list(self.path)}


@dataclass(frozen=True, slots=True)
class IsNull(Where):
    """True if the field is null or absent."""

    path: Path

    def evaluate(self, get: Getter) -> bool:
        return get(self.path) is None

    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def describe(self) -> dict[str, object]:
        return {"is": "null", "path": list(self.path)}


@dataclass(frozen=True, slots=True)
class Compare(Where):
    """True if the field has this relation to the value. `family` is the family of the value."""

    path: Path
    op: Op
    family: Family
    value: bool | int | float | Decimal | str | bytes | None

    __repr__ = repr_by_fields

    def evaluate(self, get: Getter) -> bool:
        found = get(self.path)
        family = family_of(found)
        if family is Family.NULL or self.family is Family.NULL:
            return False
        if family is not self.family:
            return self.op is Op.NE
        if family is Family.NUMBER:
            return self._numbers(found)
        return bool(COMPARE[self.op](found, self.value))

    def _numbers(self, found: object) -> bool:
        """Compare numbers.

        A float is converted to the exactly equal Decimal; NaN is not converted, since that would raise.
        """
        value = self.value
        if found != found or value != value:
            return bool(COMPARE[self.op](found != found, value != value))
        if isinstance(found, float) and isinstance(value, Decimal):
            found = Decimal.from_float(found)
        elif isinstance(found, Decimal) and isinstance(value, float):
            value = Decimal.from_float(value)
        return bool(COMPARE[self.op](found, value))

    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def describe(self) -> dict[str, object]:
        return {"is": self.op.value, "path": list(self.path), "value": _plain(self.value)}


@dataclass(frozen=True, slots=True)
class And(Where):
    """True if both conditions are true."""

    left: Where
    right: Where

    def evaluate(self, get: Getter) -> bool:
        return self.left.evaluate(get) and self.right.evaluate(get)

    def paths(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self.left.paths() + self.right.paths()))

    def describe(self) -> dict[str, object]:
        return {"is": "and", "left": self.left.describe(), "right": self.right.describe()}


@dataclass(frozen=True, slots=True)
class Or(Where):
    """True if at least one condition is true."""

    left: Where
    right: Where

    def evaluate(self, get: Getter) -> bool:
        return self.left.evaluate(get) or self.right.evaluate(get)

    def paths(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self.left.paths() + self.right.paths()))

    def describe(self) -> dict[str, object]:
        return {"is": "or", "left": self.left.describe(), "right": self.right.describe()}


@dataclass(frozen=True, slots=True)
class Not(Where):
    """True if the inner condition is false."""

    inner: Where

    def evaluate(self, get: Getter) -> bool:
        return not self.inner.evaluate(get)

    def paths(self) -> tuple[Path, ...]:
        return self.inner.paths()

    def describe(self) -> dict[str, object]:
        return {"is": "not", "inner": self.inner.describe()}


class Field(_Logic):
    """A field of a document, for comparisons. Alone it is true if the field is exactly true.

    Comparisons are annotated `Any`, since `==` in Python promises a bool. Each returns a `Where`.

    >>> field("address.city") == "Oslo"  # doctest: +ELLIPSIS
    Compare(path=('address', 'city'), op=<Op.EQ: '=='>, ...)
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """The path of the field in a document."""
        return self._path

    def __repr__(self) -> str:
        return f"field({'.'.join(self.path)!r})"

    def __hash__(self) -> int:
        return hash(self.path)

    def __eq__(self, value: object) -> Any:
        return self._compare(Op.EQ, value)

    def __ne__(self, value: object) -> Any:
        return self._compare(Op.NE, value)

    def __lt__(self, value: object) -> Any:
        return self._compare(Op.LT, value)

    def __le__(self, value: object) -> Any:
        return self._compare(Op.LE, value)

    def __gt__(self, value: object) -> Any:
        return self._compare(Op.GT, value)

    def __ge__(self, value: object) -> Any:
        return self._compare(Op.GE, value)

    def _where(self) -> Where:
        return IsTrue(self.path)

    def _compare(self, op: Op, value: object) -> Where:
        if isinstance(value, _Logic):
            raise DefinitionError(
                f"{self!r} {op.value} another field; compare a field with a value, and for two fields of one "
                "document write a function view"
            )
        family, literal = _literal(value)
        if family is not Family.NULL:
            return Compare(self.path, op, family, literal)
        if op not in (Op.EQ, Op.NE):
            raise DefinitionError(f"{self!r} {op.value} None holds for no document; compare with None by == or !=")
        return IsNull(self.path) if op is Op.EQ else Not(IsNull(self.path))


def field(path: str) -> Field:
    """Return the field at this path, to build a `where=` from.

    Compare it with a value by `==`, `!=`, `<`, `<=`, `>` or `>=`, and combine comparisons by `&`, `|` and `~`.
    `== None` means "is null or absent", and `!= None` the opposite.

    >>> big = (field("amount") >= 100) & ~(field("address.country") == "NO")
    >>> big.evaluate({("amount",): 250}.get)
    True
    """
    return Field(parse_path(path, "ps.field()"))


def as_where(value: object, what: str = "where=") -> Where:
    """Convert the argument `where=` to a condition: an expression, or a path whose field must be exactly true.

    `what` names the argument in an error.

    >>> as_where("paid")
    IsTrue(path=('paid',))
    """
    if isinstance(value, str):
        return IsTrue(parse_path(value, what))
    if isinstance(value, _Logic):
        return value._where()
    raise DefinitionError(
        f"{what} is {key_text(value)}; write a path whose field must be true, or a comparison such as "
        "ps.field('amount') > 0; for a Python function write a function view"
    )


def where_from(description: Mapping[str, Any]) -> Where:
    """Return the condition with this description.

    >>> where_from((field("a") > 1).describe()) == (field("a") > 1)
    True
    """
    form = description["is"]
    if form == "and":
        return And(where_from(description["left"]), where_from(description["right"]))
    if form == "or":
        return Or(where_from(description["left"]), where_from(description["right"]))
    if form == "not":
        return Not(where_from(description["inner"]))
    path = tuple(description["path"])
    if form == "true":
        return IsTrue(path)
    if form == "null":
        return IsNull(path)
    if form in {op.value for op in Op}:
        return Compare(path, Op(form), *_literal(_unplain(description["value"])))
    raise DefinitionError(f"unknown condition {form!r}; open this store with the version of penstock that wrote it")


def _literal(value: object) -> tuple[Family, Any]:
    """Return a value to compare with, as documents hold it (a date is its text), and its family."""
    try:
        value = normalise(value)
    except ValueKind as error:
        raise DefinitionError(f"a field can't be compared with this: {error}") from None
    family = family_of(value)
    if family is Family.OTHER:
        raise DefinitionError(
            f"a field can't be compared with {value_text(value)}; compare it with a bool, a number, text or bytes, "
            "and for a choice of several use | between comparisons"
        )
    return family, value


def _plain(value: object) -> object:
    """Return a literal that any MessagePack codec accepts: numbers beyond its range become text."""
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return ["int", hex(value)]
    return value


def _unplain(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return Decimal(value[1]) if value[0] == "decimal" else int(value[1], 16)
    return value
