"""A small evaluator of PromQL over two scrapes: enough for the rules and the board in docs/monitoring.

It knows selectors, `rate` and `increase`, `histogram_quantile`, `sum`, `min` and `max` with `by`, arithmetic,
comparisons and `and`. Anything else is an error, so a rule that Prometheus might read otherwise isn't taken for right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
_TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)|(?P<text>"[^"]*")|(?P<sign>==|=~|!=|[-+*/<>=(){},\[\]]))'
)
_SAMPLE = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Scrape:
    """The samples of one scrape."""

    samples: dict[str, Vector]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Read the text format of Prometheus."""
        out: dict[str, Vector] = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                found = _SAMPLE.fullmatch(line)
                assert found, line
                labels = frozenset((name, value) for name, value in _LABEL.findall(found[2] or ""))
                out.setdefault(found[1], {})[labels] = float(found[3])
        return cls(out)


class Query:
    """One expression over two scrapes; `selected` has the names of all metrics that it reads."""

    def __init__(self, text: str, before: Scrape, now: Scrape, seconds: float = 60.0) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._before = before
        self._now = now
        self._seconds = seconds
        self.selected: dict[str, int] = {}
        self.result = self._both()
        assert self._peek() is None, f"{text!r} has more after {self._tokens[: self._at]}"

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        found = self._peek()
        if found is None or (wanted and found not in wanted):
            return None
        self._at += 1
        return found

    def _must(self, wanted: str) -> None:
        assert self._take(wanted), f"{wanted!r} is missing before {self._peek()!r}"

    def _both(self) -> Vector:
        left = self._compared()
        while self._take("and"):
            right = self._compared()
            left = {labels: value for labels, value in left.items() if labels in right}
        return left

    def _compared(self) -> Vector:
        left = self._sum()
        sign = self._take(">", "<", "==")
        if sign is None:
            return left
        limit = self._sum()[frozenset()]
        compare: Callable[[float], bool] = {
            ">": lambda value: value > limit,
            "<": lambda value: value < limit,
            "==": lambda value: value == limit,
        }[sign]
        return {labels: value for labels, value in left.items() if compare(value)}

    def _sum(self) -> Vector:
        left = self._product()
        while sign := self._take("-", "+"):
            factor = -1.0 if sign == "-" else 1.0
            left = _joined(left, self._product(), lambda a, b, factor=factor: a + factor * b)  # type: ignore[misc]
        return left

    def _product(self) -> Vector:
        left = self._one()
        while sign := self._take("*", "/"):
            right = self._one()
            left = _joined(left, right, _divided if sign == "/" else lambda a, b: a * b)
        return left

    def _one(self) -> Vector:
        found = self._take()
        assert found is not None, "the expression ends too early"
        if found == "(":
            inner = self._both()
            self._must(")")
            return inner
        if found[0].isdigit():
            return {frozenset(): float(found)}
        if found in ("sum", "min", "max"):
            return self._aggregated({"sum": sum, "min": min, "max": max}[found])
        if found in ("rate", "increase"):
            self._must("(")
            inner = self._selected(str(self._take()), found == "rate")
            self._must(")")
            return inner
        if found == "histogram_quantile":
            self._must("(")
            quantile = self._one()[frozenset()]
            self._must(",")
            inner = self._both()
            self._must(")")
            return _quantile(quantile, inner)
        return self._selected(found, None)

    def _aggregated(self, fold: Callable[[Iterable[float]], float]) -> Vector:
        names: list[str] = []
        if self._take("by"):
            self._must("(")
            names.append(str(self._take()))
            while self._take(","):
                names.append(str(self._take()))
            self._must(")")
        self._must("(")
        inner = self._both()
        self._must(")")
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(frozenset(own for own in labels if own[0] in names), []).append(value)
        return {labels: fold(values) for labels, values in groups.items()}

    def _selected(self, name: str, rate: bool | None) -> Vector:
        matchers: list[Callable[[Labels], bool]] = []
        if self._take("{"):
            while not self._take("}"):
                label, sign, value = str(self._take()), str(self._take()), str(self._take()).strip('"')
                matchers.append(partial(_matches, label, value if sign == "=~" else re.escape(value)))
                assert sign in ("=", "=~"), sign
                self._take(",")
        now = {own: value for own, value in self._now.samples.get(name, {}).items() if all(m(own) for m in matchers)}
        self.selected[name] = len(self._now.samples.get(name, {}))
        if rate is None:
            return now
        self._must("[")
        assert self._take() is not None
        assert self._take() is not None, "a range is a number and a unit"
        self._must("]")
        before = self._before.samples.get(name, {})
        scale = self._seconds if rate else 1.0
        return {own: (value - before.get(own, 0.0)) / scale for own, value in now.items()}


def _tokens(text: str) -> Sequence[str]:
    out, at = list[str](), 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        assert found, f"{text[at:]!r} is not understood"
        out.append(found[0].strip())
        at = found.end()
    return out


def _matches(label: str, pattern: str, labels: Labels) -> bool:
    return re.fullmatch(pattern, dict(labels).get(label, "")) is not None


def _joined(left: Vector, right: Vector, work: Callable[[float, float], float]) -> Vector:
    if list(right) == [frozenset()]:
        return {labels: work(value, right[frozenset()]) for labels, value in left.items()}
    return {labels: work(value, right[labels]) for labels, value in left.items() if labels in right}


def _divided(a: float, b: float) -> float:
    return a / b if b else inf


def _quantile(quantile: float, buckets: Vector) -> Vector:
    """Return the bound of the bucket that has the quantile, for each group of buckets."""
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in buckets.items():
        bound = float(dict(labels)["le"])
        groups.setdefault(frozenset(own for own in labels if own[0] != "le"), []).append((bound, value))
    out: Vector = {}
    for labels, own in groups.items():
        own.sort()
        assert own[-1][0] == inf, "a histogram has a bucket without a bound"
        rank = quantile * own[-1][1]
        out[labels] = next(bound for bound, count in own if count >= rank)
    return out
