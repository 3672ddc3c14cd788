"""Run `penstock run` with a short patience for a silent holder: `python -m tests.kafka.run_member ARGUMENT…`.

Invariant: everything else is as in `penstock`. A holder gives a sign of life each second.
"""

from __future__ import annotations

from penstock.cli.program import main
from penstock.engine.writers import open_writer

open_writer.PATIENCE = 2.0

if __name__ == "__main__":
    main()
