"""The command that serves a store over HTTP and gRPC."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from penstock.cli.command_frame import command, load_app
from penstock.cli.context import DONE, WRONG, Context
from penstock.cli.exit_errors import ExitError

if TYPE_CHECKING:
    from penstock.serve import TlsFiles, TokenFile

_ROLES = ("read", "write", "operate", "metrics", "admin")
_GRPC, _HTTP, _METRICS, _CONTROL = (f"127.0.0.1:{port}" for port in range(7180, 7184))


@command(
    "serve",
    app=True,
    store=True,
    examples=[
        "penstock serve",
        "penstock serve --http 127.0.0.1:8080 --fronts 2",
        "penstock serve token add grafana --role metrics",
        "penstock serve --http 0.0.0.0:7181 --tls-cert server.pem --tls-key server.key",
        "penstock serve --in-process --http 127.0.0.1:0 --grpc 127.0.0.1:0 --metrics 127.0.0.1:0",
    ],
)
@click.argument("words", metavar="[token ACTION [NAME]]", nargs=-1)
@click.option("--role", type=click.Choice(_ROLES), help="With `token add`: the role of the token.")
@click.option("--table", "tables", metavar="NAME", multiple=True, help="With `token add`: a table that it may use.")
@click.option("--until", metavar="TIME", help="With `token add`: its end, as 2027-01-31 or 2027-01-31T12:00.")
@click.option("--tokens", metavar="FILE", help="The file of access tokens (else STORE.tokens beside the store).")
@click.option("--http", metavar="HOST:PORT", default=_HTTP, help=f"The address for HTTP ({_HTTP}); port 0 is any.")
@click.option("--grpc", metavar="HOST:PORT", default=_GRPC, help=f"The address for gRPC ({_GRPC}).")
@click.option("--metrics", metavar="HOST:PORT", default=_METRICS, help=f"The address for Prometheus ({_METRICS}).")
@click.option("--control", metavar="HOST:PORT", default=_CONTROL, help=f"The address for operators ({_CONTROL}).")
@click.option("--fronts", type=click.IntRange(1, 64), default=1, metavar="N", help="Processes that serve requests (1).")
@click.option("--in-process", is_flag=True, help="Serve and write in one process: for tests and tiny machines.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0.1),
    metavar="N",
    help="Calls per second of one token in a front (no limit).",
)
@click.option("--tls-cert", metavar="FILE", help="The certificate of the server and its chain, as PEM.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate, as PEM without a password.")
@click.option("--client-ca", metavar="FILE", help="The authority that must have signed certificates of clients.")
@click.option("--control-tls-cert", metavar="FILE", help="The certificate of the control plane (else --tls-cert).")
@click.option("--control-tls-key", metavar="FILE", help="The key of that certificate.")
@click.option("--control-client-ca", metavar="FILE", help="The authority of the control plane's clients.")
@click.option("--san", metavar="NAME", help="With `token add`: the name in a certificate, in place of a token.")
@click.option("--snapshots", metavar="DIR", help="The folder of snapshots (else STORE.snapshots beside the store).")
@click.option(
    "--drain",
    type=click.FloatRange(0, 3600),
    default=2.0,
    metavar="SECONDS",
    help="Seconds from the first signal to the end of new requests, for load balancers (2).",
)
@click.option(
    "--expose-without-tls",
    is_flag=True,
    help="Listen on an address that other machines reach. Access tokens and data are readable on the way.",
)
def serve(
    ctx: Context,
    words: tuple[str, ...],
    role: str | None,
    tables: tuple[str, ...],
    until: str | None,
    tokens: str | None,
    http: str,
    grpc: str,
    metrics: str,
    control: str,
    fronts: int,
    in_process: bool,
    rate: float | None,
    tls_cert: str | None,
    tls_key: str | None,
    client_ca: str | None,
    control_tls_cert: str | None,
    control_tls_key: str | None,
    control_client_ca: str | None,
    san: str | None,
    snapshots: str | None,
    drain: float,
    expose_without_tls: bool,
) -> int:
    """Serve the store over HTTP and gRPC until Ctrl-C or SIGTERM.

    Programs of any language put documents, read views, and follow changes; /openapi.json lists the routes, and server
    reflection the methods of gRPC. Each start prints an access token, sent as `authorization: Bearer TOKEN`.

    `serve token ACTION` manages the tokens that stay; ACTION is add, list or remove. `serve token add NAME --role ROLE`
    prints a token, and stores only its digest. `serve token list` lists names, and `serve token remove NAME` removes
    one. A running server follows within a second. A role read reads, write also puts and deletes, operate also checks,
    restates, retries and makes snapshots, metrics reads /metrics, and admin does all.

    --metrics serves /metrics for Prometheus, and --control the operations over gRPC for operators. Both need a token.

    Front processes read the store. One process holds it for writing. If `penstock run` or another process holds it
    already, the writes go there. A process that ends is begun again.

    With --tls-cert and --tls-key it listens on other addresses than loopback too. With --client-ca each client needs a
    certificate of that authority, and `serve token add NAME --role ROLE --san NAME` gives a role to the name in it.
    SIGHUP reads these files again, and open connections stay.

    At the first signal /readyz says 503, streams end, and calls under way are finished. A second one ends all at once.
    """
    from penstock.serve import ListenAddress, ServerSettings, TokenFile
    from penstock.serve import serve as run

    if words:
        file = TokenFile.of_store(ctx.store) if tokens is None else TokenFile(os.path.abspath(tokens))
        return _token(ctx, file, words, role, tables, until, san)
    if role or tables or until or san:
        raise ExitError("--role, --table, --until and --san belong to `penstock serve token add NAME`", WRONG)
    addresses = ListenAddress.of(http), ListenAddress.of(metrics), ListenAddress.of(grpc), ListenAddress.of(control)
    settings = ServerSettings(
        ctx.store,
        *addresses,
        fronts,
        in_process,
        expose_without_tls,
        tokens,
        snapshots,
        ctx.app,
        _tls(tls_cert, tls_key, client_ca),
        _tls(control_tls_cert, control_tls_key, control_client_ca, "control-"),
        rate,
        drain,
    )
    return run(load_app(ctx), settings, click.echo)


def _tls(certificate: str | None, key: str | None, client_ca: str | None, of: str = "") -> TlsFiles | None:
    """Return the files of TLS; None if there are none. `of` is the beginning of the options' names."""
    from penstock.serve import TlsFiles

    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise ExitError(f"TLS needs a certificate and its key; give --{of}tls-cert FILE and --{of}tls-key FILE", WRONG)
    paths = [None if path is None else os.path.abspath(path) for path in (certificate, key, client_ca)]
    return TlsFiles(str(paths[0]), str(paths[1]), paths[2])


def _token(
    ctx: Context,
    file: TokenFile,
    words: tuple[str, ...],
    role: str | None,
    tables: tuple[str, ...],
    until: str | None,
    san: str | None,
) -> int:
    """Add, list or remove access tokens."""
    from penstock.serve import Role, moment_of

    if words == ("token", "list"):
        for own in file.read():
            limits = ["all tables" if own.tables is None else ", ".join(sorted(own.tables))]
            limits += [] if own.until is None else [f"until {own.until.isoformat()}"]
            limits += [own.digest] if own.digest.startswith("san:") else []
            click.echo(f"{own.name}  {own.role.value}  {', '.join(limits)}")
    elif len(words) == 3 and words[:2] == ("token", "remove"):
        file.remove(words[2])
        ctx.note(f"removed {words[2]}")
    elif len(words) == 3 and words[:2] == ("token", "add"):
        if role is None:
            raise ExitError(f"a token needs a role; add --role {', '.join(_ROLES[:-1])} or {_ROLES[-1]}", WRONG)
        try:
            end = None if until is None else moment_of(until)
        except ValueError:
            raise ExitError(f"--until {until} is no time; write it as 2027-01-31 or 2027-01-31T12:00", WRONG) from None
        if san is None:
            click.echo(file.add(words[2], Role(role), frozenset(tables) or None, end))
        else:
            file.add_certificate(words[2], san, Role(role), frozenset(tables) or None, end)
            ctx.note(f"clients with {san} in their certificate have the role {role}")
    else:
        raise ExitError("write `serve token add NAME`, `serve token list` or `serve token remove NAME`", WRONG)
    return DONE
