"""The fault that ends a command early: one line with the reason, and an exit code.

    0 done    1 the answer is no    2 used wrongly    3 failed    130 interrupted

If the command line names a command, table, file or store that doesn't exist, the code is 2. `errors_as_exits` turns
errors of the package into faults.
"""

from __future__ import annotations

import errno
import os

from penstock.cache import hidden
from penstock.cli.context import FAILED, WRONG


class ExitError(Exception):
    """A fault that a command found: a line and an exit code. The text `above` is printed unchanged before the line."""

    def __init__(self, line: str, code: int = FAILED, above: str = "") -> None:
        line, above = hidden(line), hidden(above)
        super().__init__(line, code, above)
        self.line = line
        self.code = code
        self.above = above

    def __str__(self) -> str:
        return self.line


def of_system(error: OSError) -> ExitError:
    """Return an error of the system as a fault: the file, the reason, and the next step."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    code = WRONG if isinstance(error, FileNotFoundError) else FAILED
    return ExitError(f"{where}{reason}; {_NEXT.get(error.errno or 0, 'fix that and run this again')}", code)


_NEXT = {
    errno.ENOENT: "check the path",
    errno.EACCES: "give this user the right to it, or choose another place",
    errno.EPERM: "give this user the right to it, or choose another place",
    errno.EROFS: "choose a place that can be written",
    errno.ENOSPC: "free some space and run this again",
    errno.EDQUOT: "free some space and run this again",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file in it",
}
