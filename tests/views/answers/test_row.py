import copy
import pickle

import pytest

from penstock.views.answers.row import Row


@pytest.mark.parametrize("held", [False, True])
def test_a_row_is_a_tuple_of_two(held: bool) -> None:
    row = Row("Joe", 3, held)
    assert (row.key, row.value, row.held) == ("Joe", 3, held)
    key, value = row
    assert (key, value) == ("Joe", 3)
    assert row == ("Joe", 3)
    assert row == ("Joe", 3)
    assert hash(row) == hash(("Joe", 3))
    assert isinstance(row, Row)
    assert isinstance(row, tuple)
    assert len(row) == 2
    assert dict([row]) == {"Joe": 3}


def test_a_held_row_equals_the_row_of_the_same_value() -> None:
    assert Row(1, 2, held=True) == Row(1, 2)
    assert Row(1, 2) != Row(1, 3)


def test_rows_sort_as_tuples() -> None:
    assert sorted([Row("b", 1), Row("a", 2, held=True), Row("a", 1)]) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("held", [False, True])
def test_a_row_survives_copies(held: bool) -> None:
    row = Row(("NO", 7), {"n": 1}, held)
    for other in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert (other, other.held, type(other)) == (row, held, type(row))


def test_a_row_has_no_attributes_of_its_own() -> None:
    for held in (False, True):
        row = Row(1, 2, held)
        assert not hasattr(row, "__dict__")
        with pytest.raises(AttributeError):
            row.key = 5  # type: ignore[misc]


def test_a_row_matches_by_key_and_value() -> None:
    match Row("Joe", 3, held=True):
        case Row(key, value):
            assert (key, value) == ("Joe", 3)


def test_the_repr_of_a_row_shows_its_parts() -> None:
    assert repr(Row("Joe", 3)) == "Row(key='Joe', value=3)"
    assert repr(Row("Joe", None, held=True)) == "Row(key='Joe', value=None, held=True)"
