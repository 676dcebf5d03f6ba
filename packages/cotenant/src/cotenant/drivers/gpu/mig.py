"""The profiles of a divided card's MIG instances as a knob.

Instances that stay are not touched; those that go must be empty, whoever asks: no program runs in them, no pod was
given them by the kubelet, and the kubelet's device plugin offers them to no further one, since it learns only at its
start what there is. What is refused says who holds which instance. If the new ones do not fit, what was there is made
again. Original instances come back at their places, when those that took them are empty: until then the lease says
who it waits for.
MIG mode itself is no knob: it may reset the card, and stays over a restart of the machine, which ends every lease.
Limits: instances get new UUIDs where the driver does not derive them from their place; a restart of the machine removes
all instances. What a resource claim (DRA) gave is seen only while a program runs on it.

Source: as mig_layout.py; NVIDIA, Multi-Instance GPU User Guide (modes, and what survives a restart).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.drivers.gpu.mig_layout import MigInstance, MigLayout, Wanted
from cotenant.drivers.gpu.nvml_cards import NvmlCards
from cotenant.drivers.kubelet.given_devices import KubeletDevices
from cotenant.model.devices.gpu_use import device_names, replicated
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import format_profiles, parse_profiles


@dataclass(frozen=True, slots=True)
class _Change:
    """What goes, and what is made."""

    going: tuple[MigInstance, ...]
    coming: tuple[Wanted, ...]


class MigKnobs:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity for `Knob.GPU_MIG`. `kubelet`: what it has given
    and still offers; raises `Transient` where it cannot be asked.
    """

    def __init__(self, cards: NvmlCards, kubelet: Callable[[], KubeletDevices] = KubeletDevices) -> None:
        self._cards, self._kubelet = cards, kubelet

    def supported(self, knob: Knob) -> Gap | None:
        """Whether there are cards at all: a single one may still not be divided."""
        return self._cards.lacking(knob)

    def read(self, target: KnobTarget) -> str:
        """The instances' profiles."""
        return format_profiles(one.name for one in self._instances(target))

    def raw(self, target: KnobTarget) -> str:
        """Each instance with its place and its compute instances."""
        found = sorted((Wanted.like(one) for one in self._instances(target)), key=lambda one: one.start or 0)
        return msgspec.json.encode(found).decode()

    def write(self, target: KnobTarget, value: str) -> None:
        """Make the instances these, where those that go are empty."""
        names = parse_profiles(value)
        layout = self._layout(target)
        nvml = self._cards.library()
        try:
            profiles = layout.profiles()
            for name in names:
                if name not in profiles:
                    raise InvalidInput(str(target), value, f"profiles of this card: {', '.join(sorted(profiles))}")
            left, staying, kubelet = list(names), set[int](), self._kubelet()
            instances = layout.instances()
            for one in sorted(instances, key=lambda one: not (one.pids or self._holder(target, one, kubelet))):
                if one.name in left:
                    left.remove(one.name)
                    staying.add(one.number)
            going = tuple(one for one in instances if one.number not in staying)
            self._change(target, value, layout, _Change(going, tuple(Wanted(profiles[name][0]) for name in left)))
        except nvml.NVMLError as error:
            raise self._cards.error(target, value, error) from error

    def restore(self, target: KnobTarget, raw: str) -> None:
        """The original instances at their places."""
        try:
            wanted = msgspec.json.decode(raw, type=list[Wanted])
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise InvalidInput(f"raw value of {target}", raw, "what raw() returned for this knob") from error
        layout = self._layout(target)
        nvml = self._cards.library()
        try:
            instances = layout.instances()
            kept = {one.is_of for one in instances}
            originals = {(one.profile, one.start, one.computes) for one in wanted}
            going = tuple(one for one in instances if one.is_of not in originals)
            coming = tuple(one for one in wanted if (one.profile, one.start, one.computes) not in kept)
            self._change(target, raw, layout, _Change(going, coming))
        except nvml.NVMLError as error:
            raise self._cards.error(target, raw, error) from error

    def identity(self, target: KnobTarget) -> str:
        """The card's UUID. Raises `Vanished`."""
        self._cards.handle(target)
        return target.group

    def _change(self, target: KnobTarget, value: str, layout: MigLayout, change: _Change) -> None:
        self._must_be_empty(target, change.going)
        nvml = self._cards.library()
        made: list[int] = []
        gone: list[MigInstance] = []
        try:
            for one in change.going:
                gone.append(one)
                layout.destroy(one)
            for wanted in sorted(change.coming, key=lambda one: (one.start is None, one.start or 0, -one.profile)):
                made.append(layout.create(wanted))  # noqa: PERF401 - those before one that fails are undone
        except nvml.NVMLError as error:
            left = self._undo(layout, made, gone)
            if error.value == nvml.NVML_ERROR_IN_USE:
                raise Transient(f"{target}: a program began in an instance that goes{left}") from error
            if error.value in (nvml.NVML_ERROR_INSUFFICIENT_RESOURCES, nvml.NVML_ERROR_INSUFFICIENT_SIZE):
                stay = format_profiles(one.name for one in layout.instances() if one.number not in made)
                raise InvalidInput(
                    str(target),
                    value,
                    f"instances for which the card has room (nvidia-smi mig -lgipp); now: {stay}{left}",
                ) from error
            raise

    def _undo(self, layout: MigLayout, made: Sequence[int], gone: Sequence[MigInstance]) -> str:
        """Put back what there was after a change that failed halfway; what could not be, in words."""
        nvml, failed, lost = self._cards.library(), [], {one.number: one for one in gone}
        for one in layout.instances():
            if one.number in made or (one.number in lost and one.is_of != lost[one.number].is_of):
                try:
                    layout.destroy(one)
                except nvml.NVMLError as error:
                    failed.append(f"instance {one.number} ({one.name}) stays ({error})")
        stands = {one.is_of for one in layout.instances()}
        for one in gone:
            if one.is_of not in stands:
                try:
                    layout.create(Wanted.like(one))
                except nvml.NVMLError as error:
                    failed.append(f"{one.name} at {one.start} is not made again ({error})")
        return f"; {', '.join(failed)}" if failed else ""

    def _must_be_empty(self, target: KnobTarget, going: Sequence[MigInstance]) -> None:
        if not going:
            return
        kubelet = self._kubelet()
        for one in going:
            what = f"{target}: instance {one.number} ({one.name}) has to go"
            holder = self._holder(target, one, kubelet)
            if holder:
                raise Transient(f"{what}, and pod {holder} holds it: drain it first")
            if one.pids:
                raise Transient(f"{what}, and process {one.pids[0]} runs in it: drain it first")
            offered = next(_matching(target.group, one, kubelet.offered), "")
            if offered:
                raise Transient(
                    f"{what}, and the kubelet's device plugin still offers {offered} to pods: stop the plugin on this "
                    "node until the card has its new instances, which it lists at its start"
                )

    def _holder(self, target: KnobTarget, one: MigInstance, kubelet: KubeletDevices) -> str:
        pods = dict(kubelet.given)
        return next((pods[device] for device in _matching(target.group, one, pods)), "")

    def _instances(self, target: KnobTarget) -> tuple[MigInstance, ...]:
        nvml = self._cards.library()
        try:
            return self._layout(target).instances()
        except nvml.NVMLError as error:
            raise self._cards.error(target, "", error) from error

    def _layout(self, target: KnobTarget) -> MigLayout:
        """Raises `Unsupported` where the card is not in MIG mode."""
        nvml, handle = self._cards.library(), self._cards.handle(target)
        try:
            now, pending = nvml.nvmlDeviceGetMigMode(handle)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                raise Unsupported(str(target), f"a card and driver with MIG ({error})") from error
            raise self._cards.error(target, "", error) from error
        if now != nvml.NVML_DEVICE_MIG_ENABLE:
            if pending == nvml.NVML_DEVICE_MIG_ENABLE:
                raise Unsupported(str(target), "MIG mode, which waits for a reset of the card (nvidia-smi --gpu-reset)")
            raise Unsupported(
                str(target),
                f"MIG mode, which no lease turns: drain the node, then nvidia-smi -i {target.group} -mig 1",
            )
        return MigLayout(nvml, handle)


def _matching(card: str, one: MigInstance, devices: Iterable[str]) -> Iterator[str]:
    """Devices of the kubelet that are this instance, or the card with all of them, by all names that plugins give."""
    names = set(device_names(one.minor, card, "", str(one.number))) | set(one.uuids)
    names |= {name for name in device_names(one.minor, card, "") if not name.isdecimal()}
    return (device for device in devices if replicated(device) in names)
