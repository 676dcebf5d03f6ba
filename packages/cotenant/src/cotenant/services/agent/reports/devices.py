"""Writes this node's Device object: its GPUs, their place on the PCI bus, and their health.

A scheduler assigns parts of GPUs only where a node reports them, a GPU may become unhealthy at any time, and another
agent may report the same ones. The GPUs of the last sample are written where they differ from the object; an object
with our mark is ours, any other is left alone, which is logged once. A label says what holds shares of the GPUs while
it is seen to; a value of somebody else's stays. What is lent of each card stands beside what it has, and how
soon it is wanted back is a label; both go when nothing is lent any more.
Limits: GPUs through NVML only; network cards and link domains are not reported; a machine that never had a GPU writes
nothing.

Source: Koordinator, koordlet's Device report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from cotenant.drivers.gpu.places import place_of
from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.custom.device import DEVICES, DeviceObject, read_devices, written_devices
from cotenant.engine.node.gpu_limits import ShareVerdict
from cotenant.model.cluster.labels import Labels
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import LENT_RETURN, NODE_ISOLATION, NodeDevices
from cotenant.model.devices.partition import GPU_MODEL, table_of_model
from cotenant.model.devices.shares import HELD_BY_MPS
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, LENT_GPU, Amounts
from cotenant.services.agent.reports.lent_gpus import LentGpus
from cotenant.services.agent.reports.object_writer import ObjectWriter

PERIOD_S = 15.0
_log = logging.getLogger(__name__)
MARK = ("app.kubernetes.io/managed-by", "cotenant-agent")


class DeviceWriter(ObjectWriter):
    """Writes the Device object of one node."""

    def __init__(
        self,
        client: Client,
        node: str,
        gpus: Callable[[], Sequence[GpuCounters]],
        place: Callable[[str], tuple[int | None, str | None]] = place_of,
        shares: Callable[[Sequence[GpuCounters]], ShareVerdict] = lambda gpus: ShareVerdict(),
        lent: Callable[[], LentGpus | None] = lambda: None,
    ) -> None:
        """`shares`: whether shares of these GPUs are held; `lent`: what is lent of them, None: nothing ever is."""
        super().__init__(DEVICES.name, client, node, PERIOD_S)
        self._gpus = gpus
        self._place = place
        self._shares = shares
        self._lent = lent
        self._verdict = ShareVerdict()
        self._had_any = False

    async def _update(self) -> bool | None:
        gpus = tuple(self._gpus())
        self._had_any = self._had_any or bool(gpus)
        if not self._had_any:
            return None
        by = self._held_by(gpus)
        wanted = device_object_of(self._node, gpus, self._place, by, self._lent())
        body = msgspec.json.decode(msgspec.json.encode(written_devices(wanted)))
        try:
            found: DeviceObject = await self._client.get(DEVICES, "", self._node)
        except NotFound:
            try:
                await self._client.create(DEVICES, "", body)
            except AlreadyExists:
                return None  # created by another agent at this moment: compared in the next period
            return True
        current = read_devices(found)
        if current.labels.get(MARK[0]) != MARK[1]:
            self._leave_alone(f"Device {self._node} is written by another agent and left alone")
            return None
        stands = current.labels.get(NODE_ISOLATION)
        labels: dict[str, str | None] = dict(body["metadata"]["labels"])
        if stands and stands != HELD_BY_MPS:
            labels.pop(NODE_ISOLATION, None)
        elif stands and not by:
            labels[NODE_ISOLATION] = None
        if LENT_RETURN not in labels and current.labels.get(LENT_RETURN) is not None:
            labels[LENT_RETURN] = None
        if current.devices == wanted.devices and all(current.labels.get(key) == labels[key] for key in labels):
            return False
        patch = {"metadata": {"labels": labels}, "spec": body["spec"]}
        await self._client.patch(DEVICES, "", self._node, patch, content_type=MERGE_PATCH)
        return True

    def _held_by(self, gpus: Sequence[GpuCounters]) -> str:
        """What holds shares, said where it changes."""
        verdict, before = self._shares(gpus), self._verdict
        self._verdict = verdict
        if verdict.by and not before.by:
            _log.info("shares of this node's GPUs are held: %s", verdict.by)
        elif verdict.why and verdict.why != before.why:
            _log.warning("shares of this node's GPUs are not held: %s", verdict.why)
        return verdict.by


def device_object_of(
    node: str,
    gpus: Sequence[GpuCounters],
    place: Callable[[str], tuple[int | None, str | None]],
    held_by: str = "",
    lent: LentGpus | None = None,
) -> NodeDevices:
    """The GPUs in the scheduler's form. Unhealthy is also one of unknown memory, and one that is divided: its instances
    are a device plugin's to give, and who gets the card has one of them at most. `held_by`: what holds their shares.
    `lent`: percent of cards that are lent.
    """
    found = []
    for gpu in gpus:
        numa, pcie = place(gpu.bus)
        total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: gpu.memory_total_bytes})
        if lent is not None:
            total = total + Amounts.of({LENT_GPU: lent.percent.get(gpu.uuid, 0)})
        is_well = gpu.healthy and gpu.memory_total_bytes > 0 and not gpu.divided
        found.append(Device(DeviceType.GPU, gpu.index, total, is_well, numa, pcie, id=gpu.uuid))
    labels = dict([MARK])
    if gpus:
        labels[GPU_MODEL] = model_of(gpus[0].name)
        if held_by:
            labels[NODE_ISOLATION] = held_by
        if lent is not None:
            labels[LENT_RETURN] = str(lent.return_s)
    return NodeDevices(node, tuple(found), labels=Labels.of(labels))


def model_of(name: str) -> str:
    """A GPU's name as a label's value: the model alone where its machines are known to be alike."""
    words = name.replace("/", "-").split()
    return next((word for word in words if table_of_model(word) is not None), "-".join(words)[:63])
