"""What an installation leaves behind: agents of nodes, priority classes, and what the processes made for themselves.

An uninstallation removes what it installed, and some of it is another's by now (a pod that names a priority class
cannot be made again without it), while what the processes made (Leases, Secrets, the keepers' folder on each node)
belongs to nobody. Agents end first and are waited for, so that their keepers restore every knob; classes go unless a
pod names them, with a sentence on each that stays; Leases and Secrets go by name once no process is left that would
make them again; a keeper's folder goes only where nothing is held in it. Repeating any of it is harmless.
Limits: a workload without pods that names a class is not seen.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.drivers.kube.kinds.lease import LEASES
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.priority_class import PRIORITY_CLASSES
from cotenant.drivers.kube.kinds.secret import SECRETS
from cotenant.drivers.kube.kinds.workloads import DAEMON_SETS
from cotenant.drivers.leasefile.file import NAME, LeaseFile
from cotenant.model.errors import InvalidInput, Permanent

LOOK_S = 1.0
PAGE = 500  # pods a request
PART_OF = "app.kubernetes.io/part-of=cotenant"
SHOWN = 3
Say = Callable[[str], None]
Name = tuple[str, str]  # namespace and name


class _Spec(msgspec.Struct, frozen=True):
    class_name: str = msgspec.field(default="", name="priorityClassName")


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _ListMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _Pods(msgspec.Struct, frozen=True):
    items: list[_Pod] = []
    metadata: _ListMeta = _ListMeta()


class _Progress(msgspec.Struct, frozen=True, rename="camel"):
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0


class _DaemonSet(msgspec.Struct, frozen=True):
    status: _Progress = _Progress()


async def end_agents(client: Client, agents: Name, within_s: float, say: Say) -> None:
    """Delete the DaemonSet and wait until its pods, which have its name as their label `app`, are gone. Raises
    `Permanent` where some stay.
    """
    namespace, name = agents
    try:
        await client.delete(DAEMON_SETS, namespace, name)
        say(f"deleted DaemonSet {namespace}/{name}")
    except NotFound:
        say(f"there is no DaemonSet {namespace}/{name}")
    left = await _until_gone(client, namespace, f"app={name}", "", within_s)
    if left:
        raise Permanent(
            f"{len(left)} of the agents still run after {within_s:g} s ({_some(left)}): their knobs may be held"
        )
    say("no agent runs: knobs are as they were before")


async def remove_unused_classes(client: Client, names: Sequence[str], say: Say) -> None:
    """Delete the priority classes of these names that no pod names."""
    users: dict[str, list[str]] = {name: [] for name in names}
    async for pod in _pods(client, "", ""):
        if pod.spec.class_name in users:
            users[pod.spec.class_name].append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    for name, pods in users.items():
        if pods:
            say(f"PriorityClass {name} stays: {len(pods)} pods name it ({_some(pods)})")
            continue
        try:
            await client.delete(PRIORITY_CLASSES, "", name)
            say(f"deleted PriorityClass {name}")
        except NotFound:
            say(f"there is no PriorityClass {name}")


async def wait_for_folders(client: Client, sweep: Name, within_s: float, say: Say) -> None:
    """Wait until the DaemonSet that removes the keepers' folders has done so on every node, or tell on how many it
    has not.
    """
    namespace, name = sweep
    until = monotonic() + within_s
    while True:
        found = await client.request("GET", DAEMON_SETS.path(namespace, name))
        done = msgspec.json.decode(found, type=_DaemonSet).status
        lacking = done.desired_number_scheduled - done.number_ready
        if done.observed_generation and lacking <= 0:
            say(f"the keeper's folder is gone from {done.number_ready} nodes")
            return
        if monotonic() >= until:
            say(
                f"the keeper's folder stays on {lacking} of {done.desired_number_scheduled} nodes: they did not "
                f"answer within {within_s:g} s"
            )
            return
        await asyncio.sleep(LOOK_S)


async def remove_own(
    client: Client,
    namespace: str,
    leases: Sequence[str],
    secrets: Sequence[str],
    config_maps: Sequence[Name],
    spare: str,
    within_s: float,
    say: Say,
) -> None:
    """Delete these Leases and Secrets of `namespace`, and ConfigMaps, once no pod of ours is left there but those
    of the app `spare`.
    """
    left = await _until_gone(client, namespace, PART_OF, spare, within_s) if namespace else []
    if left:
        say(f"{len(left)} processes still end ({_some(left)}); what they make again stays")
    for lease in leases:
        await _delete(client.delete(LEASES, namespace, lease), f"Lease {namespace}/{lease}", say)
    for secret in secrets:
        await _delete(client.delete(SECRETS, namespace, secret), f"Secret {namespace}/{secret}", say)
    for where, name in config_maps:
        await _delete(client.delete(CONFIG_MAPS, where, name), f"ConfigMap {where}/{name}", say)


def remove_folder(folder: Path, boot_id: str, say: Say) -> None:
    """Remove a keeper's folder from this machine. Raises `Permanent` while a keeper uses it, or where knobs in it
    were not restored.
    """
    if not folder.exists():
        say(f"there is no folder {folder.name}")
        return
    if folder.is_symlink() or not folder.is_dir():
        raise InvalidInput("--folder", str(folder), "the folder of a keeper")
    if (folder / NAME).exists():
        file = LeaseFile(folder, boot_id)
        try:
            held = file.found.leases
        finally:
            file.close()
        if held:
            some = _some([str(lease.target) for lease in held])
            raise Permanent(
                f"{folder} stays: it has the original values of {len(held)} knobs that were not restored ({some})"
            )
    shutil.rmtree(folder)
    say(f"removed the folder {folder.name}")


async def _delete(deleting: Awaitable[None], what: str, say: Say) -> None:
    try:
        await deleting
        say(f"deleted {what}")
    except NotFound:
        pass


async def _until_gone(client: Client, namespace: str, labels: str, spare: str, within_s: float) -> list[str]:
    """The pods that are left after `within_s` seconds; those of the app `spare` do not count."""
    until = monotonic() + within_s
    while True:
        left = [
            pod.metadata.name
            async for pod in _pods(client, namespace, labels)
            if not spare or pod.metadata.labels.get("app") != spare
        ]
        if not left or monotonic() >= until:
            return left
        await asyncio.sleep(LOOK_S)


async def _pods(client: Client, namespace: str, labels: str) -> AsyncIterator[_Pod]:
    token = ""
    while True:
        query = {"limit": str(PAGE), "labelSelector": labels, "continue": token}
        found = await client.request(
            "GET", PODS.path(namespace), query={name: value for name, value in query.items() if value}
        )
        page = msgspec.json.decode(found, type=_Pods)
        for pod in page.items:
            yield pod
        token = page.metadata.continue_
        if not token:
            return


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and others" if len(names) > SHOWN else "")
