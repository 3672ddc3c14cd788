"""Count the reference cycles that decoded blocks leave. Run it as a module in a process of its own.

Other threads of a test process may leave cycles at any moment, so a count there is not the decoder's alone.
"""

from __future__ import annotations

import gc
import sys

from penstock.mapreduce import Decoder, Spaces
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.decode import decoder
from penstock.mapreduce.maps.function_map import FunctionMapper
from tests.mapreduce.decode import nested_lines


def garbage(functions: bool) -> int:
    """Return the number of objects that the collector finds after two reads with known types."""
    mapper = FunctionMapper("names", lambda doc: [doc["kind"]], [])
    of = Decoder(nested_lines.plans()[1], Spaces(), 11, [("names", mapper, Groups)] * 2 if functions else ())
    lines = [line for line in nested_lines.lines_of(0) if line[:1] == b"{"]
    other = [b'{"who": 1}', *lines[:6]]
    for given in (lines, lines[:6], other):
        of.columns(given, tell=True)
    gc.collect()
    gc.disable()
    for given in (lines[:6], other):  # the types are known, so no decoders are created
        of.columns(given, tell=True)
    return gc.collect()


if __name__ == "__main__":
    decoder.BLOCK, decoder._SAMPLE, decoder._FEW = 6, 2, 0  # a few lines make several blocks
    print(garbage(sys.argv[1] == "functions"))
