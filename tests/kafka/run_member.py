"""`penstock run` that soon takes a silent holder for one that hangs: `python -m tests.kafka.run_member ARGUMENT…`.

Invariant: nothing else is other than in `penstock`; a holder gives a sign of life each second.
"""

from __future__ import annotations

from penstock.cli.program import main
from penstock.engine.writers import open_writer

open_writer.PATIENCE = 2.0

if __name__ == "__main__":
    main()
