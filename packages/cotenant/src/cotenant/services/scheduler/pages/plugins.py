"""Pages of the plugins: gangs, quotas, devices, CPUs, reservations and load, each where the registry has it; and two
answers for `cotenant explain`.

Users of the founding API write `/apis/v1/plugins/<plugin>/<endpoint>`, and which plugins there are depends on the
registry. A route for each page of engine/explain/pages.py; an unknown name is answered with a sentence. CPUs are in the
form of the founding document, whose field names tools know.
Limits: other values have the plugins' own fields, in camelCase.
Source: founding document, v0.7, section 3 (cpuTopologyOptions, availableCPUs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.engine.cluster import Cluster
from cotenant.engine.explain.pages import NODE, MemberPage, pages
from cotenant.engine.rules.cpus.cpu_view import CpusOfNode
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.decisions.answers import Concern
from cotenant.services.routes import PageRequest, Route, UnknownName
from cotenant.services.scheduler.pages.encoding import page


class HardwareThread(msgspec.Struct, frozen=True):
    """One hardware thread."""

    cpu: int = msgspec.field(name="cpuID")
    core: int = msgspec.field(name="coreID")
    numa: int = msgspec.field(name="nodeID")
    socket: int = msgspec.field(name="socketID")


class Topology(msgspec.Struct, frozen=True):
    """A node's CPUs."""

    cpus: int = msgspec.field(name="numCPUs")
    cores: int = msgspec.field(name="numCores")
    numa_nodes: int = msgspec.field(name="numNodes")
    sockets: int = msgspec.field(name="numSockets")
    details: dict[str, HardwareThread] = msgspec.field(name="cpuDetails")


class TopologyOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of `cpuTopologyOptions`."""

    cpu_topology: Topology
    bind_policy: str
    numa_allocate_strategy: str
    numa_topology_policy: str
    amplification_ratio_ppm: int
    reserved: dict[str, str]  # CPUs that no pod may have, by what reserves them


class AllocatedCpus(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's own CPUs."""

    pod: str
    cpus: str
    exclusive_policy: str
    missing: str  # CPUs that other pods have too, or that the node does not offer


class Available(msgspec.Struct, frozen=True):
    """The answer of `availableCPUs`."""

    free: str = msgspec.field(name="availableCPUs")
    by_numa: dict[str, str] = msgspec.field(name="availableByNUMANode")
    allocated: tuple[AllocatedCpus, ...] = ()


def routes(cluster: Cluster, now: Callable[[], float]) -> tuple[Route, ...]:
    """The pages of the plugins in the registry."""
    found = [
        Route("GET", member_page.pattern, _page(cluster, member_page, member))
        for member_page, member in pages(cluster.plugins)
    ]

    def quota(asked: PageRequest) -> HttpAnswer:
        return _concern(cluster.why.quota(asked.names[0], now()), "quota", asked.names)

    def gang(asked: PageRequest) -> HttpAnswer:
        return _concern(cluster.why.gang("/".join(asked.names), now()), "gang", asked.names)

    return (
        *found,
        Route("GET", "/debug/explain/quotas/:name", quota),
        Route("GET", "/debug/explain/gangs/:namespace/:name", gang),
    )


def _page(cluster: Cluster, of: MemberPage, member: object) -> Callable[[PageRequest], HttpAnswer]:
    def answer(asked: PageRequest) -> HttpAnswer:
        if NODE in of.endpoint and not cluster.why.knows_node(asked.names[0]):
            raise _unknown("node", asked.names)
        cluster.why.settle()
        value = of.read(member, asked.names)
        if value is None:
            raise _unknown(of.what, asked.names)
        return page(_founding(of.endpoint, value))

    return answer


def _founding(endpoint: str, value: object) -> object:
    """The value in the form that the founding document shows, where it shows one; else as it is."""
    if not isinstance(value, CpusOfNode):
        return value
    if endpoint.startswith("availableCPUs"):
        return Available(
            format_cpus(value.available),
            {str(left.node): format_cpus(left.available) for left in value.numa},
            tuple(
                AllocatedCpus(holder.pod, format_cpus(holder.cpus), holder.exclusive.value, format_cpus(holder.missing))
                for holder in value.holders
            ),
        )
    cpus = value.cpus
    topology = Topology(
        cpus=len(cpus),
        cores=len({cpu.core for cpu in cpus}),
        numa_nodes=len({cpu.numa for cpu in cpus}),
        sockets=len({cpu.socket for cpu in cpus}),
        details={str(cpu.cpu): HardwareThread(cpu.cpu, cpu.core, cpu.numa, cpu.socket) for cpu in cpus},
    )
    options = value.options
    kept: dict[str, str] = {owner: format_cpus(cpus) for owner, cpus in value.kept}
    return TopologyOptions(
        topology, options.bind.value, options.strategy.value, options.policy.value, value.ratio_ppm, kept
    )


def _concern(value: Concern | None, what: str, names: Sequence[str]) -> HttpAnswer:
    if value is None:
        raise _unknown(what, names)
    return HttpAnswer(200, msgspec.json.encode(value))


def _unknown(what: str, names: Sequence[str]) -> UnknownName:
    return UnknownName(f"{what} {'/'.join(names)} is not known to this scheduler")
