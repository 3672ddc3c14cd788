"""The state of a function between calls: found through the names in its code, compared, and restored."""

from typing import Any

from penstock.testing.laws.function_memory import Memory

KEPT = {"n": 0}
LIMIT = 3


def counting(step: int) -> int:
    KEPT["n"] += min(step, LIMIT)
    return KEPT["n"]


def calling(step: int) -> int:
    return counting(step) + len("x")


def test_what_changed_is_named_and_put_back() -> None:
    KEPT["n"] = 0
    with Memory(calling) as memory:
        assert memory.changed() == []
        assert calling(2) == 3
        assert memory.changed() == ["KEPT"]
        memory.restore()
        assert memory.changed() == []
        assert calling(2) == 3, "as if it had never been called"
    assert KEPT == {"n": 0}, "nothing of it is left"


def test_methods_keep_what_their_object_has() -> None:
    class Holder:
        def __init__(self) -> None:
            self.names: list[str] = []

        def add(self, name: str) -> int:
            self.names.append(name)
            return len(self.names)

    holder = Holder()
    with Memory(holder.add) as memory:
        holder.add("Sue")
        assert memory.changed() == ["names"]


def test_what_cannot_be_copied_is_watched() -> None:
    lines = (str(i) for i in range(9))

    def reading(_: Any) -> str:
        return next(lines)

    with Memory(reading) as memory:
        reading(None)
        memory.restore()
        assert reading(None) == "1", "it can't be put back"
