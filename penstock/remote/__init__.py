"""Ask the process that holds a store to work on it."""

__all__: list[str] = []
