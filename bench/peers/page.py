"""The page of the results, RESULTS.md, and its plots, both written from the JSON file alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.peers import plots
from bench.peers.reasons import LIMITS, aim, reason
from bench.peers.results import DOCUMENTS, QUIET, Results, Row
from bench.peers.shapes import WORKLOADS
from bench.peers.systems import PENSTOCK, SYSTEMS

_HEAD = """\
# Penstock beside its peers

`{command}` measured these figures, on {machine}. `make bench-peers` measures all of them.
`python -m bench.peers --help` lists its options.

- All systems get the same lines and keep the same views. They ran in turns, in alternating order, and the rows of a
  resumed run among themselves. A figure is the median of {rounds} rounds. The spread is the distance of the extremes.
- *By the clock* includes waiting for the disk and for other processes. *Per CPU second* counts the CPU time of the
  whole process tree of a system.
- {busy}
- The final view of every system was compared with a full computation before its time counted.
- A ratio is the rate of Penstock divided by the rate of the peer at the same batch size. For times it is the time
  of the peer divided by that of Penstock. Above 1 Penstock is ahead. A ratio per CPU second that is missed has its
  reason below the table.
"""
_BY_SIZE, _RECOMPUTE = 10, "DuckDB"
_COLUMNS = (
    "system",
    "setting",
    "batch",
    "documents/s (spread)",
    "per CPU second",
    "ratio by the clock",
    "ratio per CPU second",
    "machine, load",
)


def write(results: Results, folder: Path) -> None:
    """Write the page and a plot per case."""
    order = {system.name: number for number, system in enumerate(SYSTEMS)}
    rows = sorted(
        results.rows,
        key=lambda row: (row.job.workload, row.job.case, -row.job.batch, order.get(row.job.system, len(order))),
    )
    parts = [_HEAD.format(command=results.command, machine=results.machine, rounds=_rounds(rows), busy=_busy(rows))]
    if results.note:
        parts.append(results.note + "\n")
    for number in sorted({row.job.workload for row in rows}):
        own = [row for row in rows if row.job.workload == number]
        parts.append(f"## Workload {number}: {WORKLOADS[number].title}\n")
        if number == _BY_SIZE:
            parts.append(_crossover(own))
        for case in dict.fromkeys(row.job.case for row in own):
            parts.append(_case(folder, [row for row in own if row.job.case == case]))
    parts.append("\n".join(_versions(rows)))
    parts.append("\n".join(_left_out(results)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RESULTS.md").write_text("\n".join(parts), "utf-8")


def _rounds(rows: list[Row]) -> str:
    numbers = sorted({len(row.rates) for row in rows})
    return " to ".join(dict.fromkeys(map(str, (numbers[0], numbers[-1])))) if numbers else "0"


def _busy(rows: list[Row]) -> str:
    busy, every = sum(sum(row.busy) for row in rows), sum(len(row.rates) for row in rows)
    if not busy:
        return "No round was disturbed by other processes."
    return (
        f"In {busy} of {every} rounds other processes took more than {_share(1 - QUIET)} of the machine.\n"
        "  Their rows are marked *busy*. There the ratios per CPU second count. The share is that of the busiest round."
    )


def _case(folder: Path, rows: list[Row]) -> str:
    """Return the table of one case, its plot, and the ratios that are missed."""
    first = rows[0]
    title = f"{first.job.case}, {max(row.docs for row in rows):,} lines"
    out = [f"### {title}\n"]
    if first.unit == DOCUMENTS:
        name = f"plots/workload-{first.job.workload}-{first.job.case.replace(' ', '-')}.svg"
        _plot(folder / name, title, rows)
        out.append(f"![{title}]({name})\n")
        out += [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    else:
        out += [f"| system | setting | batch | {first.unit} (spread) | ratio | machine, load |", "|---" * 6 + "|"]
    lacking = []
    for row in rows:
        base = _base(rows, row)
        line, missed = _row(row, base)
        out.append(line)
        lacking += missed
    return "\n".join([*out, "", *lacking]) + "\n"


def _crossover(rows: list[Row]) -> str:
    """Return a sentence about the least number of documents at which a change costs less than a computation."""
    ahead: list[int] = []
    behind: list[int] = []
    for row in rows:
        own = _base([one for one in rows if one.job.case == row.job.case], row)
        if row.job.system == _RECOMPUTE and own:
            (ahead if own.cpu_median >= row.cpu_median else behind).append(int(row.job.case.split()[0]))
    if not ahead:
        return (
            f"With up to {max(behind, default=0):,} documents {_RECOMPUTE} computes all views anew for less CPU time.\n"
        )
    least = (
        f"With {min(ahead):,} documents and more a change costs less CPU time than {_RECOMPUTE} takes to compute anew"
    )
    return f"{least}{f', with {max(behind):,} and fewer it costs more' if behind else ''}.\n"


def _base(rows: list[Row], row: Row) -> Row | None:
    """Return the row of Penstock at the same batch size."""
    for one in rows:
        if one.job.system == PENSTOCK and one.job.batch == row.job.batch:
            return one
    return None


def _row(row: Row, base: Row | None) -> tuple[str, list[str]]:
    """Return the line of one row, and the line of a ratio that is missed."""
    job, own = row.job, row.job.system == PENSTOCK
    cells = [job.system, job.setting, f"{job.batch:,}", f"{_number(row.median)} ({_share(row.spread)})"]
    rates = row.unit == DOCUMENTS
    if rates:
        cells.append(_number(row.cpu_median))
    clock = cpu = None
    if base and not own and row.median and base.median:
        clock = base.median / row.median if rates else row.median / base.median
        cpu = base.cpu_median / row.cpu_median if rates else clock
    least = aim(job.workload, job.system, job.setting)
    cells += [_ratio(clock)] if not rates else [_ratio(clock), _ratio(cpu)]
    state = f"{_share(min(row.idle))}, {max(row.load):.1f}" + (", busy" if any(row.busy) else "")
    missed = []
    if least is not None and cpu is not None and cpu < least:
        text = reason(job.workload, job.case, job.system)
        missed.append(f"- {job.system}, {job.setting}, by {job.batch:,}: {cpu:.2f} × of {least:g} ×: {text}")
    return f"| {' | '.join([*cells, state])} |", missed


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} ×"


def _plot(path: Path, title: str, rows: list[Row]) -> None:
    sizes = {row.job.batch for row in rows}
    size = 10_000 if 10_000 in sizes else max(sizes)
    named = [
        (f"{row.job.system}, {row.job.setting}", row.cpu_median, row.median)
        for row in sorted(rows, key=lambda row: -row.cpu_median)
        if row.job.batch == size and row.job.system not in LIMITS
    ]
    if named:
        plots.bars(path, f"{title}, batches of {size:,}", named, PENSTOCK)


def _versions(rows: list[Row]) -> Iterator[str]:
    """Yield the table of versions, settings and caveats."""
    yield "## Versions, settings and caveats\n"
    yield "| system | version | settings | caveat |"
    yield "|---|---|---|---|"
    for system in SYSTEMS:
        versions = dict.fromkeys(row.version for row in rows if row.job.system == system.name)
        if versions:
            yield f"| {system.name} | {', '.join(versions)} | {system.tuned} | {system.caveat} |"
    yield ""


def _left_out(results: Results) -> Iterator[str]:
    yield "## Left out\n"
    if not results.left_out:
        yield "No system was left out."
    for system, text in sorted(results.left_out.items()):
        yield f"- {system}: {' '.join(text.split())}"
    yield ""
