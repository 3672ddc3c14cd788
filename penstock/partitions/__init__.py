"""A store of several partitions: handles, processes and routing."""

__all__: list[str] = []
