"""`cotenant fleet top`: what hosts and containers use now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from cotenant.cli.fleet.commands import BusAddress, app, bus_options
from cotenant.cli.options import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cotenant.model.fleet.figures import TopPage

_BUS = BusAddress()
_MIB = 1 << 20
_WIDTH = 200  # where the output is no terminal


@app.command
def top(
    *,
    sort: Annotated[
        str, Parameter(help="Most first: cpu, system, memory, load, network, disk, restarts or oom.")
    ] = "cpu",
    tag: Annotated[tuple[str, ...], Parameter(help="On hosts with all of these tags.")] = (),
    host: Annotated[str, Parameter(help="On this host (name or guid).", show_default=False)] = "",
    group: Annotated[str, Parameter(help="Of this group.", show_default=False)] = "",
    watch: Annotated[
        bool, Parameter(negative=(), help="Show it anew every --every seconds, until interrupted.")
    ] = False,
    every: Annotated[float, Parameter(help="Seconds between two tables of --watch.")] = 2.0,
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """What hosts and containers use now: CPU, of it in the kernel, load averages, memory, network, disk, restarts.

    Loads are of a container's tasks that run, want to, or wait for a disk.
    """
    from rich.console import Console
    from rich.live import Live

    from cotenant.model.errors import InvalidInput
    from cotenant.model.fleet.figures import Top
    from cotenant.services.fleet.top import check_sort, fleet_figures

    check_sort(sort)
    if not every >= 0.2:
        raise InvalidInput("--every", every, "0.2 seconds or more")
    options, wanted = bus_options(connection), Top(tag, host, group)
    page = fleet_figures(options, wanted)
    if json:
        print(msgspec.json.encode(page).decode())
        return 0
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    if not watch:
        console.print(_tables(page, sort))
        return 0
    with Live(_tables(page, sort), console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            time.sleep(every)
            live.update(_tables(fleet_figures(options, wanted), sort), refresh=True)


def _tables(page: TopPage, sort: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    from cotenant.services.fleet.top import rows

    hosts = Table(box=None, pad_edge=False)
    for name in ("host", "CPU", "memory", "load 1/5/15", "network in/out", "disk read/written"):
        hosts.add_column(name, justify="left" if name == "host" else "right", no_wrap=True)
    for measured in page.hosts:
        host = measured.host
        hosts.add_row(
            measured.hostname,
            f"{host.cpu_milli / 1000:.2f} of {host.cpus}",
            f"{host.memory_bytes / _MIB:.0f} of {host.memory_total_bytes / _MIB:.0f} MiB",
            f"{host.load_1:.2f} {host.load_5:.2f} {host.load_15:.2f}",
            f"{_rate(host.received_bytes)} {_rate(host.sent_bytes)}",
            f"{_rate(host.read_bytes)} {_rate(host.written_bytes)}",
        )
    table = Table(box=None, pad_edge=False)
    names = ("guid", "host", "CPU", "system", "held", "memory", "load 1/5/15", "network in/out", "disk read/written")
    for name in (*names, "tasks", "OOM", "restarts"):
        table.add_column(name, justify="left" if name in ("guid", "host") else "right", no_wrap=True)
    for row in rows(page, sort):
        found = row.container
        table.add_row(
            found.guid,
            row.host.hostname,
            _cores(found.cpu_milli),
            _cores(found.system_milli),
            "" if not found.throttled_permille else f"{found.throttled_permille / 10:.0f} %",
            "" if found.memory_bytes is None else f"{found.memory_bytes / _MIB:.1f} MiB",
            " ".join("" if load is None else f"{load:.2f}" for load in (found.load_1, found.load_5, found.load_15)),
            f"{_rate(found.received_bytes)} {_rate(found.sent_bytes)}",
            f"{_rate(found.read_bytes)} {_rate(found.written_bytes)}",
            *("" if count is None else str(count) for count in (found.tasks, found.oom_kills, found.restarts)),
        )
    return Group(hosts, "", table, *(f"no figures: {line}" for line in page.unmeasured))


def _cores(milli: int | None) -> str:
    return "" if milli is None else f"{milli / 1000:.2f}"


def _rate(per_s: int | None) -> str:
    """Bytes a second, short."""
    if per_s is None:
        return "-"
    amount = float(per_s)
    for unit in ("B", "K", "M"):
        if amount < 1024:
            return f"{amount:.0f}{unit}"
        amount /= 1024
    return f"{amount:.1f}G"
