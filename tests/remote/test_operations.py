"""The table of remote operations: each entry fits the calls of the client and of the server."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine import Engine
from penstock.partitions.member import Member
from penstock.partitions.partition_operations import ALL_OPERATIONS
from penstock.remote.operation_writer import OperationWriter
from penstock.remote.operations import OPERATIONS, Operation

_OF_PARTITIONS = ALL_OPERATIONS.keys() - OPERATIONS.keys()
_WRAPPED = {"memory", "meters", "alive"}  # no method has their name
_SHAPED = {"load", "repair"}  # they get one batch, or a list of arguments


def parameters(method: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(method).parameters) - {"self"}


@pytest.mark.parametrize("target", [Engine, OperationWriter])
@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - _WRAPPED - _SHAPED))
def test_a_target_has_the_method_and_its_arguments(name: str, target: type) -> None:
    operation = OPERATIONS[name]
    found = parameters(getattr(target, name))
    assert operation.arguments.keys() <= found
    assert operation.reports is ("progress" in found)


@pytest.mark.parametrize("name", sorted(_OF_PARTITIONS - _WRAPPED - _SHAPED))
def test_a_member_has_the_method_and_its_arguments(name: str) -> None:
    method = "take" if name == "own" else name
    assert ALL_OPERATIONS[name].arguments.keys() == parameters(getattr(Member, method))


@pytest.mark.parametrize("name", ALL_OPERATIONS)
def test_an_operation_has_the_name_of_its_entry(name: str) -> None:
    operation: Operation[Any] = ALL_OPERATIONS[name]
    assert operation.name == name
    assert operation.request({})["do"] == name
