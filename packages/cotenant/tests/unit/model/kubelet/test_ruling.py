"""How knobs may be held beside a kubelet, its runtime and systemd; the cases are what real ones did."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.facts import STATIC, KubeletFacts
from cotenant.model.kubelet.groups import Driver, GroupKind, Level, kind_of
from cotenant.model.kubelet.owners import OWNERS, KnobWriter, OwnerEffect
from cotenant.model.kubelet.ruling import HoldingMeans, kinds, rows_of, ruling, ruling_of
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget

UID = "0a1b2c3d-0000-4000-8000-000000000001"
SLICE_UID = UID.replace("-", "_")
FOLDERS = "kubepods/besteffort"
SLICES = "kubepods.slice/kubepods-besteffort.slice"
POD, POD_SLICE = f"{FOLDERS}/pod{UID}", f"{SLICES}/kubepods-besteffort-pod{SLICE_UID}.slice"
CONTAINER, SCOPE = f"{POD}/{'a' * 64}", f"{POD_SLICE}/cri-containerd-{'a' * 64}.scope"
V1, V2 = KubeletFacts(1), KubeletFacts(2)
SYSTEMD = KubeletFacts(2, systemd=252)


@pytest.mark.parametrize(
    ("group", "level", "qos", "driver"),
    [
        ("kubepods", Level.NODE, None, Driver.CGROUPFS),
        ("kubepods.slice", Level.NODE, None, Driver.SYSTEMD),
        (FOLDERS, Level.QOS, KubernetesQoS.BEST_EFFORT, Driver.CGROUPFS),
        ("kubepods/burstable", Level.QOS, KubernetesQoS.BURSTABLE, Driver.CGROUPFS),
        (SLICES, Level.QOS, KubernetesQoS.BEST_EFFORT, Driver.SYSTEMD),
        (POD, Level.POD, KubernetesQoS.BEST_EFFORT, Driver.CGROUPFS),
        (POD_SLICE, Level.POD, KubernetesQoS.BEST_EFFORT, Driver.SYSTEMD),
        (f"kubepods/pod{UID}", Level.POD, KubernetesQoS.GUARANTEED, Driver.CGROUPFS),
        (CONTAINER, Level.CONTAINER, KubernetesQoS.BEST_EFFORT, Driver.CGROUPFS),
        (SCOPE, Level.CONTAINER, KubernetesQoS.BEST_EFFORT, Driver.SYSTEMD),
        (f"{SCOPE}/init", Level.INSIDE, KubernetesQoS.BEST_EFFORT, Driver.SYSTEMD),
        (f"above/{FOLDERS}", Level.QOS, KubernetesQoS.BEST_EFFORT, Driver.CGROUPFS),
    ],
)
def test_groups_of_a_kubelet(group: str, level: Level, qos: KubernetesQoS | None, driver: Driver) -> None:
    assert kind_of(group) == GroupKind(level, qos, driver)


@pytest.mark.parametrize("group", ["", "batch.slice", "system.slice/redis.service", "kubepods/besteffort/other"])
def test_other_groups_have_no_kind(group: str) -> None:
    assert kind_of(group) is None


@pytest.mark.parametrize("facts", [V1, V2, SYSTEMD])
@pytest.mark.parametrize("group", [FOLDERS, SLICES, "kubepods", "kubepods/burstable"])
def test_no_class_of_pods_is_set_idle(group: str, facts: KubeletFacts) -> None:
    """The kubelet writes its weight, which the kernel then refuses: it could not start."""
    found = ruling(KnobTarget(group, Knob.CPU_IDLE), facts)
    assert found.is_refused
    assert "the kubelet writes" in found.reason


@pytest.mark.parametrize(
    ("group", "facts", "means"),
    [
        (POD, V1, HoldingMeans.WRITE),
        (POD, V2, HoldingMeans.WRITE),
        (POD_SLICE, SYSTEMD, HoldingMeans.SYSTEMD),
        (POD_SLICE, KubeletFacts(2, systemd=250), HoldingMeans.WRITE),  # CPUWeight=idle came with 252
        (CONTAINER, V1, HoldingMeans.REFUSED),
        (SCOPE, SYSTEMD, HoldingMeans.REFUSED),
        (POD.replace("besteffort", "burstable"), V1, HoldingMeans.REFUSED),
        (POD.replace("besteffort", "burstable"), KubeletFacts(1, version=(1, 32)), HoldingMeans.WRITE),
    ],
)
def test_where_the_idle_class_is_held(group: str, facts: KubeletFacts, means: HoldingMeans) -> None:
    assert ruling(KnobTarget(group, Knob.CPU_IDLE), facts).means is means


@pytest.mark.parametrize("knob", [Knob.CPU_MAX, Knob.CPUSET_CPUS, Knob.MEMORY_HIGH, Knob.MEMORY_MAX])
def test_limits_of_best_effort_go_through_systemd_where_it_owns_the_group(knob: Knob) -> None:
    assert ruling(KnobTarget(SLICES, knob), SYSTEMD).means is HoldingMeans.SYSTEMD
    assert ruling(KnobTarget(FOLDERS, knob), V2).means is HoldingMeans.WRITE
    beside = ruling(KnobTarget(SLICES, knob), V2)  # systemd cannot be reached
    assert beside.means is HoldingMeans.WRITE
    assert "systemd cannot be reached" in beside.reason


def test_a_unit_that_is_no_kubelets_goes_through_systemd_too() -> None:
    assert ruling(KnobTarget("batch.slice", Knob.CPU_MAX), SYSTEMD).means is HoldingMeans.SYSTEMD
    assert ruling(KnobTarget("batch.slice", Knob.CPU_BURST), SYSTEMD).means is HoldingMeans.WRITE
    assert ruling(KnobTarget("batch.slice", Knob.CPU_MAX), V2).means is HoldingMeans.WRITE
    assert ruling(KnobTarget("batch", Knob.CPU_MAX), SYSTEMD).means is HoldingMeans.WRITE


def test_a_smaller_quota_above_a_limited_container_only_where_the_kernel_lets_it_start() -> None:
    pod = KnobTarget(POD.replace("besteffort", "burstable"), Knob.CPU_MAX)
    assert ruling(pod, V1).raises_only
    assert not ruling(pod, V2).raises_only
    assert not ruling(KnobTarget(POD, Knob.CPU_MAX), V1).raises_only


def test_the_static_cpu_manager_keeps_its_lists() -> None:
    for version in (1, 2):
        facts = KubeletFacts(version, cpu_manager=STATIC)
        assert ruling(KnobTarget(CONTAINER, Knob.CPUSET_CPUS), facts).is_refused
    assert ruling(KnobTarget(FOLDERS, Knob.CPUSET_CPUS), KubeletFacts(1, cpu_manager=STATIC)).raises_only
    assert (
        ruling(KnobTarget(FOLDERS, Knob.CPUSET_CPUS), KubeletFacts(2, cpu_manager=STATIC)).means is HoldingMeans.WRITE
    )
    assert (
        ruling(KnobTarget(CONTAINER, Knob.CPUSET_CPUS), KubeletFacts(1, cpu_manager="none")).means is HoldingMeans.WRITE
    )


def test_no_burst_stands_where_an_update_of_a_cpu_list_would_write_a_quota_below_it() -> None:
    """Before in-place resizes the runtime writes a container's quota again only where its list changes."""
    container = KnobTarget(CONTAINER.replace("besteffort", "burstable"), Knob.CPU_BURST)
    for version in (1, 2):
        older = KubeletFacts(version, (1, 32), "none")
        assert ruling(container, older).means is HoldingMeans.WRITE
        found = ruling(container, replace(older, cpu_manager=STATIC))
        assert found.is_refused
        assert "the kubelet's static CPU manager writes when a container's list changes" in found.reason


def test_whatever_is_not_refused_makes_no_write_of_another_fail() -> None:
    """Against the rows themselves: only a value below what stood before may still do so, and the ruling says so."""
    versions = [None, (1, 30), (1, 36)]
    managers = ["", "none", STATIC]
    for cgroup, version, manager, systemd in product((1, 2), versions, managers, (None, 249, 252)):
        facts = KubeletFacts(cgroup, version, manager, systemd=systemd)
        for knob, kind in product((knob for knob in Knob if knob.scope is KnobScope.CGROUP), kinds()):
            found = ruling_of(knob, kind, facts)
            failing = [row for row in rows_of(knob, kind, facts) if row.effect is OwnerEffect.FAILS]
            if not found.is_refused:
                assert all(row.restricts for row in failing)
                assert found.raises_only == bool(failing)
            else:
                assert found.reason


def test_every_row_concerns_some_node() -> None:
    facts = [KubeletFacts(cgroup, (1, 36), STATIC, memory_qos=True, systemd=252) for cgroup in (1, 2)]
    seen = {row for one, kind, knob in product(facts, kinds(), Knob) for row in rows_of(knob, kind, one)}
    assert seen == set(OWNERS)
    assert {row.writer for row in OWNERS} == set(KnobWriter)
