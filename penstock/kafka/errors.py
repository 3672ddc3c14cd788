"""Errors of topics, brokers and Kafka URIs. Each names the next step."""

from __future__ import annotations

from penstock.cache import PenstockError, hidden

__all__ = ["BrokerAway", "KafkaFault", "OffsetLost"]


class KafkaFault(PenstockError):
    """A fault that waiting does not repair.

    >>> print(KafkaFault("kafka://host:9092/users", "there is no such topic", "create it"))
    kafka://host:9092/users: there is no such topic; create it
    """

    def __init__(self, where: str, reason: str, remedy: str) -> None:
        where, reason = hidden(where), hidden(reason)
        super().__init__(where, reason, remedy)
        self.where = where
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}; {self.remedy}"


class BrokerAway(KafkaFault):
    """No broker answers now. One may answer later.

    >>> print(BrokerAway("kafka://host:9092/users"))
    kafka://host:9092/users: no broker answers; see whether it runs, and whether this is its address
    """

    def __init__(self, where: str, reason: str = "no broker answers") -> None:
        super().__init__(where, reason, "see whether it runs, and whether this is its address")


class OffsetLost(KafkaFault):
    """The topic has no record at the next offset to read.

    >>> print(OffsetLost("kafka://host:9092/users", 3, 40))
    kafka://host:9092/users: partition 3 has nothing at offset 40; look at the topic's id and bounds
    """

    def __init__(self, where: str, partition: int, offset: int) -> None:
        super().__init__(
            where, f"partition {partition} has nothing at offset {offset}", "look at the topic's id and bounds"
        )
        self.partition = partition
        self.offset = offset
