"""Send each line of each file of a folder to a worker, exactly once.

python -m examples.connector.folder_source FOLDER 127.0.0.1:7200 COOKIE

A stream is a file, and a message is a line with its number. If the program is killed, start it again: the worker tells
how far each file is committed.
"""

import sys
from pathlib import Path

import penstock as ps


def send_folder(folder: Path, address: str, cookie: str) -> int:
    """Send all lines that the worker does not have yet, and return their number."""
    sent = 0
    with ps.connector.Source(address, cookie, "folder") as source:
        for path in sorted(folder.iterdir()):
            last = source.committed(path.name)
            with path.open("rb") as lines:
                for number, line in enumerate(lines):
                    if last is not None and number <= last:
                        continue
                    source.send(path.name, number, line)
                    sent += 1
    return sent  # the end of the block waited until all of them are committed


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder, address, cookie = sys.argv[1:]
    try:
        print(send_folder(Path(folder), address, cookie), "lines sent")
    except ps.PenstockError as error:
        sys.exit(str(error))
