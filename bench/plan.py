"""The size of a run: full sizes, or tiny ones that only prove that everything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes for all figures."""

    folder: Path
    docs: int = 1_000_000
    keys: int = 200_000
    many_keys: int = 10_000_000
    puts: int = 2_000
    rounds: int = 3
    batches: tuple[int, ...] = (50_000, 10_000)
    judged: bool = True
    plots: Path | None = None

    @classmethod
    def smoke(cls, folder: Path) -> Plan:
        return cls(folder, docs=3_000, keys=600, many_keys=5_000, puts=20, rounds=1, batches=(1_000, 500), judged=False)

    def met(self, holds: bool) -> bool | None:
        """Test whether a bound holds; None for tiny runs, which can't tell."""
        return holds if self.judged else None

    def at(self, name: str) -> str:
        """Return a folder for one measurement."""
        return str(self.folder / name)
