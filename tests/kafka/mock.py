"""Run the mock broker of confluent-kafka's wheel in this process, through C functions that its Python interface hides.

It has topics with a number of partitions, records and groups. It has no other administration, no transactions, no
timestamps of records, and no durable storage.
"""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

ck: Any = importlib.import_module("confluent_kafka")
_PRODUCER = 0
_BROKER, _NO_BROKER = 1, -1
_SPACE = 512


def _library() -> Any:
    (path,) = (Path(ck.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
    library = ctypes.CDLL(str(path))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, takes in (
        ("conf_new", pointer, []),
        ("conf_set", number, [pointer, text, text, pointer, ctypes.c_size_t]),
        ("new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("destroy", None, [pointer]),
        ("mock_cluster_new", pointer, [pointer, number]),
        ("mock_cluster_bootstraps", text, [pointer]),
        ("mock_cluster_destroy", None, [pointer]),
        ("mock_set_controller_id", number, [pointer, ctypes.c_int32]),
        ("mock_topic_create", number, [pointer, text, number, number]),
        ("mock_partition_set_leader", number, [pointer, text, ctypes.c_int32, ctypes.c_int32]),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, takes
    return library


class Mock:
    """One mock broker."""

    def __init__(self) -> None:
        self._library = _library()
        said = ctypes.create_string_buffer(_SPACE)
        options = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(options, b"log_level", b"0", None, 0)
        self._handle = self._library.rd_kafka_new(_PRODUCER, options, said, _SPACE)
        assert self._handle, said.value
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, _BROKER)
        self._library.rd_kafka_mock_set_controller_id(self._cluster, _BROKER)  # clients wait for a controller

    @property
    def servers(self) -> str:
        """Return its address."""
        found: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode()

    def make(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        wrong = self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
        assert not wrong, f"error {wrong}"

    def lead(self, topic: str, has_leader: bool, partition: int = 0) -> None:
        """Give a partition its leader, or remove the leader."""
        leader = _BROKER if has_leader else _NO_BROKER
        wrong = self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, leader)
        assert not wrong, f"error {wrong}"

    def close(self) -> None:
        """Stop it."""
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)
