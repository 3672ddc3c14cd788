"""Record the transcripts of all scripted cases: `PENSTOCK_WALLAROO=DIR python -m tests.connector.reference.record`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.connector.reference.sink.cases import CASES
from tests.connector.reference.sink.transcripts import FILE, recorded, write


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write({case.name: recorded(case, Path(folder, str(at))) for at, case in enumerate(CASES)})
    print(f"{len(CASES)} cases are in {FILE}")


if __name__ == "__main__":
    main()
