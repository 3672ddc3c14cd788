"""Retries of documents and rows that a view holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cache import Reader
from penstock.flow import StreamNode
from penstock.gateway import refresh_view
from penstock.mapreduce import Holds, RowDelta, ViewNode, Writes, refresh_rows
from penstock.views import Join

if TYPE_CHECKING:
    from penstock.core.commit import Core

__all__ = ["retry_holds"]


def retry_holds(core: Core, node: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> list[bytes]:
    """Retry documents or rows that a view holds. Return the keys of those that still exist."""
    source = node.view.source
    if isinstance(source, Join):
        found = core.joins.stored(source.name).documents(reader, set(holds))
        if found:
            node.take_rows(reader, [RowDelta(key, group, row, row) for key, (group, row) in found.items()], writes)
        return list(found)
    if node.chained:
        return refresh_rows(node, core.views[source.name], reader, holds, writes)
    own = core.tables[source.name]
    if isinstance(own, StreamNode):
        return own.retry(node, reader, holds, writes)
    return refresh_view(own, node, reader, holds, writes)
