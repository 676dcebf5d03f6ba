"""Looks at a live node for the doctor: trees, kubelet, systemd, keeper, other writers, and what the kernel grants.

What would go wrong once an agent acts is spread over a dozen places, some of which are away, slow or not ours to read.
Each is asked once, within a time limit, and one that does not answer is "not known". The agent looks by itself at its
start, so nothing here writes and nothing raises for a part that is missing.
Limits: the eBPF probe is loaded for a moment, and only where asked; a kubelet's version and configz need a cluster.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.cgroup.watch import KnobWatch
from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import version
from cotenant.drivers.ebpf.sub_scheduler import check_sub_schedulers
from cotenant.drivers.kubelet.configuration import config_of_configz
from cotenant.drivers.kubelet.roots import roots_here
from cotenant.drivers.nri.state_file import HANGS, read_state
from cotenant.drivers.proc.capabilities import lacking
from cotenant.drivers.seals.seals import unsealed
from cotenant.drivers.systemd.manager import SOCKET, SystemdManager
from cotenant.engine.node.doctor.found import KeeperFound, NodeFound, OtherWriter
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob, KnobScope
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.node_facts import NodeFactsReader
from cotenant.services.knobs.wire import Described
from cotenant.services.nodeview.cards import unable
from cotenant.services.nodeview.other_writers import KOORDLET, other_writers

if TYPE_CHECKING:  # an HTTP client comes with it: only where there is a cluster
    from cotenant.drivers.kube.client.client import Client

ANSWER_S = 3.0  # of the keeper, and of the cluster
HOOK = "`cotenant nri` (the chart: node.nri.enabled=true)"
PRESSURE = Path("/proc/pressure/cpu")
_KOORDLETS = "koord-app=koordlet"


class Describing(Protocol):
    """A keeper's client, as far as the doctor needs one."""

    async def describe(self) -> Described:
        """What it grants, knows and lacks."""

    async def close(self) -> None:
        """End the connection."""


async def examine(
    config: AgentConfig, *, single: bool, probes: bool = False, checkpoint: Path | None = None
) -> NodeFound:
    """What is found for an agent with this configuration. `probes`: also whether the eBPF probe can be loaded.
    `checkpoint`: of the kubelet's CPU manager, instead of the configuration's. Raises `Unsupported` without cgroups.
    """
    found = await asyncio.to_thread(_look, config, single, probes, checkpoint or config.cpu_manager_state)
    if not single:
        found = await _with_keeper(found, config)
    return await _with_cluster(found, config)


def _look(config: AgentConfig, single: bool, probes: bool, checkpoint: Path) -> NodeFound:
    layout = detect(str(config.cgroup_root))
    with closing(SystemdManager(socket=SOCKET)) as systemd:
        kubelet = NodeFactsReader(layout.version("cpu"), systemd.version, checkpoint)()
    with closing(Groups(layout)) as groups:
        absent = tuple(group for group in config.writable if not groups.exists(group))
    has_pressure = PRESSURE.exists() and layout.unified is not None
    schedulers, sub_schedulers = _schedulers()
    return NodeFound(
        cgroups=layout.kind.value,
        kubelet=kubelet,
        roots=roots_here(layout),
        absent=absent,
        unsupported=tuple(_unsupported(layout)),
        writers=other_writers(config, single=single),
        watch=_watch(layout),
        pressure="" if has_pressure else "a kernel with pressure stall information (psi=1) and a cgroup v2 tree",
        short_windows=", ".join(lacking()) if single and has_pressure else "",
        run_queue=_run_queue(layout) if probes else "",
        schedulers=schedulers,
        sub_schedulers=sub_schedulers,
        runtime_hook=_runtime_hook(config),
        cards=unable(config.policies.recovery, checkpoint.parent) if probes else (),
        seal=unsealed(config.seal_certificate),
    )


def _unsupported(layout: CgroupLayout) -> Iterator[tuple[Knob, str]]:
    with CgroupKnobs(layout) as knobs:
        for knob in Knob:
            gap = knobs.supported(knob) if knob.scope is KnobScope.CGROUP else None
            if gap is not None:
                yield knob, gap.needs


def _watch(layout: CgroupLayout) -> str:
    try:
        KnobWatch(layout).close()
    except OSError as error:
        return f"a free inotify instance ({error.strerror or error}; fs.inotify.max_user_instances)"
    return ""


def _run_queue(layout: CgroupLayout) -> str:
    from cotenant.services.nodeview.capabilities import run_queue

    return run_queue(layout).needs


def _schedulers() -> tuple[str, str]:
    """What kernel schedulers of zones need here: those of the machine, else those of one group."""
    try:
        sched_ext.read_state()
    except Unsupported as error:
        return error.needs, ""
    try:
        check_sub_schedulers(os.uname().release, version())
    except Unsupported as error:
        return "", error.needs
    return "", ""


def _runtime_hook(config: AgentConfig) -> str:
    state = read_state(config.runtime_hook.state_file)
    if state is not None and state.hangs:
        return HANGS
    if state is not None and state.runtime:
        return "" if state.acts else f"mode act for the hook that {state.runtime} has"
    socket = config.runtime_hook.socket
    return (
        HOOK
        if socket.exists()
        else f"{HOOK} beside a runtime with NRI, whose socket {socket} is not seen here (as in a pod)"
    )


async def _with_keeper(
    found: NodeFound, config: AgentConfig, client_of: Callable[[Path, float], Describing] = KeeperClient
) -> NodeFound:
    client = client_of(config.keeper, ANSWER_S)
    try:
        said = await client.describe()
    except CotenantError as error:
        return replace(found, keeper=KeeperFound(f"{error}"))
    finally:
        await client.close()
    return replace(
        found,
        keeper=KeeperFound("", said.roots, said.knobs),
        kubelet=found.kubelet.joined(said.facts),
        short_windows="" if found.pressure else ", ".join(said.lacks),
        run_queue=found.run_queue and said.waits,  # what this process cannot load the keeper may have loaded
    )


async def _with_cluster(found: NodeFound, config: AgentConfig) -> NodeFound:
    if config.cluster is None:
        return found
    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client

    try:
        access = load_access(config.cluster.kubeconfig, config.cluster.context)
        client = Client(access, qps=10.0, burst=10, in_flight=2, timeout_s=ANSWER_S, user_agent="cotenant-doctor")
        async with asyncio.timeout(ANSWER_S), client:
            return await _asked(client, found, config)
    except (CotenantError, TimeoutError):
        return found


async def _asked(client: Client, found: NodeFound, config: AgentConfig) -> NodeFound:
    from cotenant.drivers.kube.kinds.node import NODES, kubelet_version
    from cotenant.drivers.kube.kinds.pod.on_node import NODE_PODS

    of_node = f"spec.nodeName={config.node}"
    if await client.has_any(NODE_PODS, "", labels=_KOORDLETS, fields=of_node) and not any(
        writer.what == KOORDLET for writer in found.writers
    ):
        found = replace(found, writers=(*found.writers, OtherWriter(KOORDLET, f"a pod on {config.node}")))
    facts = found.kubelet
    nodes = await client.all_of(NODES, fields=f"metadata.name={config.node}")
    if nodes:
        facts = replace(facts, version=kubelet_version(nodes[0]))
    assert config.cluster is not None
    if config.cluster.kubelet_configz:
        facts = facts.joined(await _configz(client, config.node))
    return replace(found, kubelet=facts)


async def _configz(client: Client, node: str) -> KubeletFacts:
    try:
        return config_of_configz(await client.request("GET", f"/api/v1/nodes/{quote(node, safe='')}/proxy/configz"))
    except CotenantError:
        return KubeletFacts()
