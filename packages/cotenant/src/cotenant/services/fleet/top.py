"""Figures of the whole fleet, asked page by page, and which rows of them are shown in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.figures import ContainerFigures, Measured, Top, TopPage
from cotenant.services.fleet.operator import ask_controller
from cotenant.services.fleet.places import BusOptions

SORTS: Mapping[str, Callable[[ContainerFigures], float]] = {
    "cpu": lambda found: found.cpu_milli or 0,
    "system": lambda found: found.system_milli or 0,
    "memory": lambda found: found.memory_bytes or 0,
    "load": lambda found: found.load_1 or 0,
    "network": lambda found: (found.received_bytes or 0) + (found.sent_bytes or 0),
    "disk": lambda found: (found.read_bytes or 0) + (found.written_bytes or 0),
    "restarts": lambda found: found.restarts or 0,
    "oom": lambda found: found.oom_kills or 0,
}


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """A container and its host."""

    host: Measured
    container: ContainerFigures


def fleet_figures(bus: BusOptions, wanted: Top) -> TopPage:
    """All pages as one."""
    return every_page(lambda start: ask_controller(bus, "top", start, TopPage, 10.0), wanted)


def every_page(ask: Callable[[Top], TopPage], wanted: Top) -> TopPage:
    """Pages one after another, as one."""
    page = ask(wanted)
    hosts, unmeasured = page.hosts, page.unmeasured
    while page.next_start is not None:
        page = ask(replace(wanted, start=page.next_start))
        hosts, unmeasured = hosts + page.hosts, unmeasured + page.unmeasured
    return TopPage(hosts, unmeasured)


def check_sort(name: str) -> str:
    """The name, where containers can be sorted by it. Raises `InvalidInput`."""
    if name not in SORTS:
        raise InvalidInput("--sort", name, "one of " + ", ".join(SORTS))
    return name


def rows(page: TopPage, sort: str) -> list[ContainerRow]:
    """The containers, those with the most first."""
    found = [ContainerRow(host, container) for host in page.hosts for container in host.containers]
    return sorted(found, key=lambda row: (-SORTS[sort](row.container), row.container.guid))
