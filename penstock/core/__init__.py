"""One partition: its catalog, and the transaction that takes a batch."""

__all__: list[str] = []
