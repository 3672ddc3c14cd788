"""python -m examples.demo [--orders N] [--seed N]"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from examples.demo.screen import heading, say
from examples.demo.story import Story, Wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the story. Return 0 if every check passed."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="A small real story, to its end.")
    parser.add_argument("--orders", type=int, default=60_000, metavar="N", help="versions of orders (60000)")
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="what documents are made from (7)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            Story(Path(folder), options.orders, options.seed).run()
        heading(f"The end: every check held, in {time.monotonic() - begun:.0f} s; nothing is left on the disk")
        say("your turn: README.md and docs/guide have the API, and examples/demo is all there is of this story")
    except Wrong as error:
        print(f"\nWRONG: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; nothing is left on the disk", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader has closed the pipe, so the interpreter must not flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return 0


if __name__ == "__main__":
    sys.exit(main())
