"""Names of classes: one thing for each name, and no retired words."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.tidy.tree import PACKAGE, files, parsed

# Names that classes of two modules share: why. This list may only shrink.
SHARED = {
    "Two": "two trial apps each draw records of two kinds; the class is local to the function that makes the app",
}

# Words that the glossary replaces. They are no part of the name of a class.
RETIRED = {
    "Again", "Away", "Behind", "Concert", "Courier", "Dangler", "Few", "Fleet", "Late", "Learnt", "Mender", "Parted",
    "Said", "Seat", "Shown", "Spanned", "Stands", "Swept", "Sweep", "There", "Told",
}  # fmt: skip

_SMALL = "the gateway still has a form of its own for small batches"
_PUBLIC = "an error that users may catch"

# Classes that have such a word in their names: why. This list may only shrink.
KEPT: dict[str, str] = {
    "BrokerAway": _PUBLIC,
    "Few": _SMALL,
    "FewFields": _SMALL,
    "FewForm": _SMALL,
    "FewRecord": _SMALL,
    "FewTelling": _SMALL,
    "FewVersion": _SMALL,
    "SinkBehind": _PUBLIC,
}

# Words that are no part of the name of a function, a parameter or an attribute, in lower case.
RETIRED_PARTS = {
    "mend", "mender", "parting", "relearn", "retell", "retold", "seat", "seats", "sweep", "swept", "told", "untold",
}  # fmt: skip

# Names with such a word: why. This list may only shrink.
KEPT_PARTS: dict[str, str] = {
    "told": "users read it in reports and of stored documents, and call it in tests of a map",
    "told_at": "a field of the stored state, by name",
}


def classes(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the modules that define a class, by the name of the class."""
    out: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                out[node.name].append(path.relative_to(PACKAGE.parent).as_posix())
    return out


def shared(names: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: places for name, places in names.items() if len(places) > 1}


def retired(name: str) -> set[str]:
    """Return the retired words of a name."""
    return RETIRED & set(re.findall("[A-Z][a-z0-9]*", name))


def identifiers(text: str) -> Iterator[str]:
    """Yield the names of functions, parameters and attributes that a module defines, and of its variables."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def retired_parts(name: str) -> set[str]:
    """Return the retired words of the name of a function or an attribute."""
    return RETIRED_PARTS & set(name.lower().split("_"))


def with_retired_parts(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the modules that define a name with a retired word, by the name."""
    out: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for name in sorted(set(identifiers(path.read_text()))):
            if retired_parts(name):
                out[name].append(path.relative_to(PACKAGE.parent).as_posix())
    return out


def test_no_two_classes_have_one_name() -> None:
    found = shared(classes(files(".py", under=PACKAGE)))
    wrong = [f"{name}: {', '.join(places)}" for name, places in sorted(found.items()) if name not in SHARED]
    assert not wrong, "\n".join(["give each of these classes the noun of its file:", *wrong])


def test_no_class_has_a_retired_word_in_its_name() -> None:
    found = {name: retired(name) for name in classes(files(".py", under=PACKAGE)) if retired(name)}
    wrong = [f"{name}: {', '.join(sorted(words))}" for name, words in sorted(found.items()) if name not in KEPT]
    assert not wrong, "\n".join(["the glossary has other words for these:", *wrong])


def test_no_function_or_attribute_has_a_retired_word_in_its_name() -> None:
    found = with_retired_parts(files(".py", under=PACKAGE))
    wrong = [f"{name}: {', '.join(places)}" for name, places in sorted(found.items()) if name not in KEPT_PARTS]
    assert not wrong, "\n".join(["the glossary has other words for these:", *wrong])


def test_each_exception_is_still_needed() -> None:
    names = classes(files(".py", under=PACKAGE))
    assert set(SHARED) <= set(shared(names))
    assert all(name in names and retired(name) for name in KEPT)
    assert set(KEPT_PARTS) <= set(with_retired_parts(files(".py", under=PACKAGE)))


def test_a_shared_name_and_a_retired_word_are_seen() -> None:
    assert classes([PACKAGE / "cache" / "store" / "protocol.py"])["Reader"] == ["penstock/cache/store/protocol.py"]
    assert shared({"Part": ["a.py", "b.py"], "Row": ["c.py"]}) == {"Part": ["a.py", "b.py"]}
    assert retired("FleetSeat") == {"Fleet", "Seat"}
    assert retired("PartitionHandle") == retired("Fewest") == set()
    assert set(identifiers("def f(told): self._swept = retold = 1")) == {"f", "told", "retold", "_swept"}
    assert retired_parts("_is_told") == {"told"}
    assert retired_parts("mended") == retired_parts("recommend") == set()
