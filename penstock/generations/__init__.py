"""Views with changed definitions: their differences, their build, and the switch of readers."""

__all__: list[str] = []
