"""Limits and weights of block devices, and the pod annotation that sets them.

A configuration and a pod's annotation set the same properties of a device, one by number and one by name. One value for
limits, and a parser of the annotation that knows the devices by number and by name.
Limits: only blocks of type `device`; volumes and volume groups are not resolved.

Source: Koordinator, apis/slo (blkio settings: 0 = no limit, weight in percent of 100).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob_values import MAX_BYTES, DeviceLimits
from cotenant.model.machine.node_pod import NodePod

MIN_BPS, MIN_IOPS = 1 << 17, 20  # of a part, where a limit is divided
BLKIO_QOS = "koordinator.sh/blkioQOS"  # annotation on pods: JSON


@dataclass(frozen=True, slots=True)
class IoLimits:
    """Limits of one device; None = no limit. `InvalidInput` for what no kernel takes."""

    read_bps: int | None = None  # bytes per second
    write_bps: int | None = None
    read_iops: int | None = None
    write_iops: int | None = None

    def __post_init__(self) -> None:
        for name in ("read_bps", "write_bps", "read_iops", "write_iops"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MAX_BYTES:
                raise InvalidInput(f"I/O limit {name}", value, f"1 to {MAX_BYTES}, or no limit")

    def divided(self, parts: int) -> IoLimits:
        """One of so many equal parts, of what a group can still work with."""

        def part(limit: int | None, least: int) -> int | None:
            return None if limit is None else max(min(limit, least), limit // parts)

        return IoLimits(
            part(self.read_bps, MIN_BPS),
            part(self.write_bps, MIN_BPS),
            part(self.read_iops, MIN_IOPS),
            part(self.write_iops, MIN_IOPS),
        )


NO_LIMITS = IoLimits()


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A disk whose use may be limited. `InvalidInput` unless `number` is MAJOR:MINOR."""

    number: str
    names: tuple[str, ...] = ()  # names used by annotations, e.g. /dev/sda

    def __post_init__(self) -> None:
        major, colon, minor = self.number.partition(":")
        if not colon or not all(part.isascii() and part.isdigit() and len(part) < 8 for part in (major, minor)):
            raise InvalidInput("I/O device", self.number, "MAJOR:MINOR, e.g. 8:0")


def disk_groups(pod: NodePod, cgroup_version: int) -> tuple[str, ...]:
    """The groups of a pod that limits of disks are set on: on cgroup v1 they hold for a group's own processes only."""
    if cgroup_version == 1:
        found = tuple(container for container in pod.containers if container.group)
        # One that nobody declared is called by its id: the pod's sandbox, or a pod of which the tree alone tells.
        declared = tuple(container for container in found if container.name != container.container_id[:12])
        if found:
            return tuple(container.group for container in declared or found)
    return (pod.group,) if pod.group else ()


def tighter(one: IoLimits, other: IoLimits) -> IoLimits:
    """The smaller limit of both, for each kind."""

    def less(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else min(a, b)

    return IoLimits(
        less(one.read_bps, other.read_bps),
        less(one.write_bps, other.write_bps),
        less(one.read_iops, other.read_iops),
        less(one.write_iops, other.write_iops),
    )


def io_max(limits: tuple[tuple[str, IoLimits], ...]) -> str:
    """The value of `io.max`, one device per line; "" where nothing is limited."""
    found = {number: one for number, one in limits if one != NO_LIMITS}
    return "\n".join(
        str(DeviceLimits(number, one.read_bps, one.write_bps, one.read_iops, one.write_iops))
        for number, one in sorted(found.items(), key=lambda pair: tuple(map(int, pair[0].split(":"))))
    )


@dataclass(frozen=True, slots=True)
class PodIo:
    """A pod's parsed annotation."""

    limits: tuple[tuple[str, IoLimits], ...] = ()  # by a device's number
    weight: int | None = None  # of the pod on all devices: the last one given
    wrong: tuple[str, ...] = ()


class _Settings(msgspec.Struct, frozen=True):
    readIOPS: int | None = None  # noqa: N815
    writeIOPS: int | None = None  # noqa: N815
    readBPS: int | None = None  # noqa: N815
    writeBPS: int | None = None  # noqa: N815
    ioWeightPercent: int | None = None  # noqa: N815


class _Block(msgspec.Struct, frozen=True):
    name: str = ""
    type: str = ""
    ioCfg: _Settings = _Settings()  # noqa: N815


class _Written(msgspec.Struct, frozen=True):
    blocks: tuple[_Block, ...] = ()


@functools.lru_cache(maxsize=1024)
def read_annotation(text: str | None, devices: tuple[BlockDevice, ...]) -> PodIo:
    """Parse the annotation `koordinator.sh/blkioQOS`; invalid parts are reported in `wrong` and ignored."""
    if text is None or text == "":
        return PodIo()
    try:
        blocks = msgspec.json.decode(text, type=_Written).blocks
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return PodIo(wrong=(f"annotation {BLKIO_QOS} is invalid ({error})",))
    numbers = {name: device.number for device in devices for name in (device.number, *device.names)}
    limits: dict[str, IoLimits] = {}
    weight: int | None = None
    wrong: list[str] = []
    for block in blocks:
        number = numbers.get(block.name) if block.type == "device" else None
        if number is None:
            wrong.append(f"annotation {BLKIO_QOS}: {block.type} {block.name!r} is not among the configured devices")
            continue
        settings = block.ioCfg
        try:
            amounts = (settings.readBPS, settings.writeBPS, settings.readIOPS, settings.writeIOPS)
            limits[number] = IoLimits(*((amount or None) for amount in amounts))
        except InvalidInput as error:
            wrong.append(f"annotation {BLKIO_QOS}: {error}")
            continue
        if settings.ioWeightPercent is not None:
            if 1 <= settings.ioWeightPercent <= 10_000:
                weight = settings.ioWeightPercent
            else:
                wrong.append(f"annotation {BLKIO_QOS}: weight {settings.ioWeightPercent} is not in 1..10000")
    return PodIo(tuple(sorted(limits.items())), weight, tuple(wrong))
