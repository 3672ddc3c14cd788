"""What ends a command before its work is done: one line that says what, and an exit code.

    0 done    1 the answer is no    2 used wrongly    3 failed    130 interrupted

What was named on the command line and isn't there (a command, a table, a file, a store) is used wrongly. Errors of the
package are put into these words by `error_advice`.
"""

from __future__ import annotations

import errno
import os

from penstock.cache import hidden
from penstock.cli.context import FAILED, WRONG


class Fault(Exception):
    """A fault that a command found itself: the line and the code; `above` is shown before it, as it is."""

    def __init__(self, line: str, code: int = FAILED, above: str = "") -> None:
        line, above = hidden(line), hidden(above)
        super().__init__(line, code, above)
        self.line = line
        self.code = code
        self.above = above

    def __str__(self) -> str:
        return self.line


def of_system(error: OSError) -> Fault:
    """What an error of the system is: the file it names, why, and what to do."""
    why = (error.strerror or str(error) or type(error).__name__).lower()
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    code = WRONG if isinstance(error, FileNotFoundError) else FAILED
    return Fault(f"{where}{why}; {_NEXT.get(error.errno or 0, 'mend that and run this again')}", code)


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
