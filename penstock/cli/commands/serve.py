"""The command that serves a store over HTTP."""

from __future__ import annotations

import click

from penstock.cli.command_frame import command, load_app
from penstock.cli.context import Context

_HTTP, _METRICS = "127.0.0.1:7181", "127.0.0.1:7182"


@command(
    "serve",
    app=True,
    store=True,
    examples=[
        "penstock serve",
        "penstock serve --http 127.0.0.1:8080 --fronts 2",
        "penstock serve --in-process --http 127.0.0.1:0 --metrics 127.0.0.1:0",
    ],
)
@click.option("--http", metavar="HOST:PORT", default=_HTTP, help=f"The address for HTTP ({_HTTP}); port 0 is any.")
@click.option("--metrics", metavar="HOST:PORT", default=_METRICS, help=f"The address for Prometheus ({_METRICS}).")
@click.option("--fronts", type=click.IntRange(1, 64), default=1, metavar="N", help="Processes that serve requests (1).")
@click.option("--in-process", is_flag=True, help="Serve and write in one process: for tests and tiny machines.")
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
    ctx: Context, http: str, metrics: str, fronts: int, in_process: bool, drain: float, expose_without_tls: bool
) -> int:
    """Serve the store over HTTP until Ctrl-C or SIGTERM.

    Programs of any language put documents, read views, and follow changes; /openapi.json lists the routes. Each start
    prints an access token, which requests send as `authorization: Bearer TOKEN`.

    /metrics on the second address has the metrics in the format of Prometheus. It needs the access token too.

    Front processes read the store. One process holds it for writing. If `penstock run` or another process holds it
    already, the writes go there. A process that ends is begun again.

    At the first signal /readyz says 503. Then new requests are refused, streams end, and calls under way are finished.
    A second signal ends all processes at once. No answered write is lost.
    """
    from penstock.serve import ListenAddress, ServerSettings
    from penstock.serve import serve as run

    addresses = ListenAddress.of(http), ListenAddress.of(metrics)
    settings = ServerSettings(ctx.store, *addresses, fronts, in_process, expose_without_tls, drain)
    return run(load_app(ctx), settings, click.echo)
