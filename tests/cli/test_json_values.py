"""Values as JSON, in and out."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import encode_key, pack
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps, group_of, loads, object_of, pretty, restored

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**40, 10**41)
    | st.floats()
    | st.text()
    | st.binary(max_size=20)
)
GROUPS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
VALUES = st.recursive(
    SCALARS | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(GROUPS)
def test_what_is_shown_of_a_group_is_what_is_taken(group: Any) -> None:
    assert encode_key(group_of(dumps(group))) == encode_key(group)


@given(VALUES)
def test_exact_json_comes_back_as_it_was(value: Any) -> None:
    assert pack(restored(loads(dumps(value, exact=True)))) == pack(value)


@given(VALUES)
def test_all_json_is_json_on_one_line_and_pretty_json_is_the_same(value: Any) -> None:
    text = dumps(value)
    assert "\n" not in text
    assert "\r" not in text
    json.loads(text, parse_constant=pytest.fail)
    assert loads(pretty(value)) == loads(text)


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("Joe", "Joe"),
        ("7", 7),
        ('"7"', "7"),
        ("1e3", 1000.0),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("1e999", "1e999"),
        ("null", None),
        ("true", True),
        ("True", "True"),
        ("", ""),
        ("[1, [2]]", (1, (2,))),
        ("[1", "[1"),
        ('{"$bytes": "AAE="}', b"\x00\x01"),
        ('{"$bytes": "?"}', {"$bytes": "?"}),
        ('{"a": 1}', {"a": 1}),
    ],
)
def test_what_an_argument_means(text: str, group: Any) -> None:
    assert group_of(text) == group


def test_floats_that_json_has_not() -> None:
    assert dumps([math.nan, math.inf, -math.inf]) == '[{"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}]'
    assert math.isnan(group_of('{"$float": "nan"}'))


def test_numbers_keep_their_digits() -> None:
    assert dumps({"d": Decimal("1.10"), "i": 10**30, "f": 0.1}) == f'{{"d": 1.10, "i": {10**30}, "f": 0.1}}'
    assert len(dumps(10**5000)) == 5001
    assert group_of("9" * 5000) == 10**5000 - 1


def test_an_object_is_asked_for() -> None:
    assert object_of('{"id": 7}') == {"id": 7}
    with pytest.raises(
        ExitError, match=r"the document is no JSON: expecting value at character 7 of '\{\"id\":'; write it"
    ):
        object_of('{"id":')
    with pytest.raises(ExitError, match="argument 2 is '7' and no JSON object"):
        object_of("7", "argument 2")
    with pytest.raises(ExitError, match="NaN is no number"):
        object_of('{"a": NaN}')


def test_a_long_value_is_shown_on_several_lines() -> None:
    value = {"name": "x" * 60, "list": list(range(40)), "empty": {}}
    assert pretty(value).splitlines()[1] == f'  "name": "{"x" * 60}",'
    assert pretty({"a": 1}) == '{"a": 1}'
    assert pretty("x" * 200) == f'"{"x" * 200}"'
