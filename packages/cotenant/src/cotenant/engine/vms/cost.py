"""What a virtual machine costs its host, from two looks at its threads: run delay by vCPU, devices, exits, kicks.

A *kick* is an access of the guest to a device of its machine, which is how a driver calls for a virtio queue; a
*notification* is an interrupt by message, which is how the device answers. Many of both for little work is a device
that does not batch.
Limits: with KVM only; accesses that are no queue's (a serial port, a timer) count as kicks; interrupts that hardware
delivers to the guest by itself (posted, AVIC) are not seen.

Source: linux arch/x86/kvm/trace.h, include/trace/events/kvm.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.zones.vm_figures import stolen_share
from cotenant.model.vms.host_machine import HostMachine

EXITS = "kvm:kvm_exit"
KICKS = ("kvm:kvm_fast_mmio", "kvm:kvm_mmio", "kvm:kvm_pio")
NOTIFICATIONS = "kvm:kvm_msi_set_irq"
TRACEPOINTS = (EXITS, *KICKS, NOTIFICATIONS)


@dataclass(frozen=True, slots=True)
class VcpuCost:
    """`cpus`: run, in CPUs; `stolen`: of the time in which it wanted to run, the share that the host did not give."""

    number: int
    cpus: float
    stolen: float


@dataclass(frozen=True, slots=True)
class MachineCost:
    """Of the time between two looks. None: not counted here."""

    pid: int
    name: str
    pod_uid: str
    group: str
    accelerator: str
    vcpus: tuple[VcpuCost, ...]
    cpus: float  # of all its threads, the kernel's for it included
    stolen: float | None  # of all vCPUs together
    device_cpus: float  # of QEMU's threads that are no vCPU; of all of them where vCPUs are not told apart
    vhost_cpus: float
    exits_per_s: float | None
    kicks_per_s: float | None
    notifications_per_s: float | None

    @property
    def kicks_per_notification(self) -> float | None:
        """How many calls of the guest came on one of its devices."""
        if self.kicks_per_s is None or not self.notifications_per_s:
            return None
        return self.kicks_per_s / self.notifications_per_s


def machine_cost(
    before: HostMachine, after: HostMachine, counts: Mapping[str, int] | None, seconds: float
) -> MachineCost:
    """`counts`: of `TRACEPOINTS` in between, those that this kernel has; None where nothing was counted."""
    vcpus, ran_us, waited_us = [], 0, 0
    for number, now in after.vcpus.items():
        then = before.vcpus.get(number)
        run_us = max(0, now.run_us - (then.run_us if then else 0))
        wait_us = max(0, now.wait_us - (then.wait_us if then else 0))
        vcpus.append(VcpuCost(number, run_us / 1e6 / seconds, stolen_share(run_us, wait_us)))
        ran_us, waited_us = ran_us + run_us, waited_us + wait_us
    device_us, vhost_us = max(0, after.other_us - before.other_us), max(0, after.vhost_us - before.vhost_us)

    def rate(*names: str) -> float | None:
        found = [counts[name] for name in names if name in counts] if counts and after.accelerator == "KVM" else []
        return sum(found) / seconds if found else None

    return MachineCost(
        pid=after.pid,
        name=after.name,
        pod_uid=after.pod_uid,
        group=after.group,
        accelerator=after.accelerator,
        vcpus=tuple(vcpus),
        cpus=(ran_us + device_us + vhost_us) / 1e6 / seconds,
        stolen=stolen_share(ran_us, waited_us) if vcpus else None,
        device_cpus=device_us / 1e6 / seconds,
        vhost_cpus=vhost_us / 1e6 / seconds,
        exits_per_s=rate(EXITS),
        kicks_per_s=rate(*KICKS),
        notifications_per_s=rate(NOTIFICATIONS),
    )
