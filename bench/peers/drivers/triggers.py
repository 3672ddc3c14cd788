"""The SQL of the tables and views of PostgreSQL and SQLite.

Counts and sums are kept by triggers. A group without documents keeps a row with count 0, and readers skip it: a delete
per group would cost more. A least, a greatest and a top n are read from an index for each group that changed. A view on
a view counts distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.peers.drivers.turn import columns_of, is_sum, name_of
from bench.peers.shapes import TABLE, TOP, Case, How, Total, View

_N = Total("n", How.COUNT)
_KINDS = {"int": "bigint", "text": "text"}
_READ = {How.MIN: "{f}", How.MAX: "{f} desc", How.TOP: "{f} desc"}


def source_of(view: View) -> str:
    """Return the table that a view reads."""
    return view.source or TABLE


def kept(case: Case) -> list[View]:
    """Return the views that triggers keep, each after its source."""
    out = []
    for view in case.views:
        if is_sum(view):
            out.append(view)
        else:
            named = next(total for total in view.totals if total.how is How.DISTINCT)
            counts = (Total(named.name, How.COUNT), Total(view.count, How.SUM, "n"))
            out += [
                View("pairs", (*view.by, named.field), (_N,)),
                View("counts", view.by, counts, "pairs"),
            ]
    return out


def chosen(case: Case) -> list[View]:
    """Return the views with results that an index gives."""
    return [view for view in case.views if not is_sum(view)]


def read_totals(view: View) -> list[Total]:
    """Return the results of such a view that an index gives."""
    return [total for total in view.totals if total.how in _READ]


def tables(case: Case, options: str = "") -> Iterator[str]:
    """Yield the statements that make the tables of a case. `options` are those of the table of a view."""
    listed = [f"{name} {_KINDS[kind]}{' primary key' if name == 'id' else ''}" for name, kind in columns_of(case)]
    yield f"create table {TABLE} ({', '.join(listed)})"
    for view in kept(case):
        yield table(view, case, options)
    for view in chosen(case):
        yield table(replace(view, totals=tuple(read_totals(view))), case, options)
        field = name_of(read_totals(view)[0].field)
        yield f"create index on_{view.name} on {TABLE} ({', '.join(parts(view))}, {field})"


def table(view: View, case: Case, options: str) -> str:
    """Return the statement that makes the table of a view."""
    kinds = {name_of(path): kind for path, kind in case.columns.items()}
    columns = [f"{part} {_KINDS[kinds.get(part, 'int')]}" for part in parts(view)]
    columns += [f'"{total.name}" {_KINDS["text" if total.how is How.TOP else "int"]}' for total in view.totals]
    return f"create table {view.name} ({', '.join(columns)}, primary key ({', '.join(parts(view))})){options}"


def filled(view: View) -> str:
    """Return the statement that fills the table of a view of counts and sums from its documents."""
    sums = ", ".join("count(*)" if total.how is How.COUNT else f"sum({total.field})" for total in view.totals)
    keys = ", ".join(parts(view))
    return f"insert into {view.name} select {keys}, {sums} from {TABLE} group by {keys}"


def parts(view: View) -> list[str]:
    """Return the columns of the group of a view."""
    return [name_of(path) for path in view.by]


def added(view: View) -> str:
    """Return the end of an insert that adds to the results of a group that exists."""
    both = ", ".join(f'"{t.name}" = {view.name}."{t.name}" + excluded."{t.name}"' for t in view.totals)
    return f"on conflict ({', '.join(parts(view))}) do update set {both}"


def present(view: View, case: Case, alias: str) -> str:
    """Return the condition under which a row of the source of a view has contributions."""
    parent = next((one for one in kept(case) if one.name == view.source), None)
    return f'{alias}"{parent.count}" > 0' if parent else ""


def refreshed(view: View, groups: str) -> str:
    """Return the statement that computes results from an index, for the groups of a query."""
    same = " and ".join(f"{TABLE}.{part} = touched.{part}" for part in parts(view))
    results = []
    for total in read_totals(view):
        order = _READ[total.how].format(f=total.field)
        limit = TOP if total.how is How.TOP else 1
        rows = f"select {total.field} from {TABLE} where {same} order by {order} limit {limit}"
        if total.how is How.TOP:
            results.append(f"(select string_agg(cast({total.field} as text), ',') from ({rows}) as first)")
        else:
            results.append(f"({rows})")
    sets = ", ".join(f'"{total.name}" = excluded."{total.name}"' for total in read_totals(view))
    return (
        f"insert into {view.name} select {', '.join(parts(view))}, {', '.join(results)} from ({groups}) as touched "
        f"where true on conflict ({', '.join(parts(view))}) do update set {sets}"
    )


def reading(view: View, case: Case) -> str:
    """Return the query of the rows of a view."""
    if is_sum(view):
        names = [*parts(view), *(f'"{total.name}"' for total in view.totals)]
        return f"select '{view.name}', {', '.join(names)} from {view.name} where \"{view.count}\" > 0"
    names = [f'"{total.name}"' for total in view.totals]
    keys = ", ".join(parts(view))
    return f"select '{view.name}', {keys}, {', '.join(names)} from counts join {view.name} using ({keys}) where n > 0"
