"""The doctor's findings by what was found: conflicts forbid acting, warnings and notes do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.node.doctor.checks import DoctorFinding, FindingSeverity, conflicts, findings
from cotenant.engine.node.doctor.found import KeeperFound, NodeFound, OtherWriter
from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob
from cotenant.policy.nodeqos.memory.protection import MemoryQosConfig

BEST_EFFORT = "kubepods/besteffort"
SLICE = "kubepods.slice/kubepods-besteffort.slice"
KNOWN = KubeletFacts(1, (1, 32), "none", "none")
V1 = NodeFound("v1", KNOWN, ("kubepods",), keeper=KeeperFound("", ("kubepods",)))
V2 = NodeFound("v2", replace(KNOWN, cgroup_version=2, systemd=252), ("kubepods.slice",))
WHOLE = AgentSettings(roots=("kubepods",))


def texts(found: NodeFound, settings: AgentSettings, severity: FindingSeverity) -> list[str]:
    return [finding.text for finding in findings(found, settings) if finding.severity is severity]


def only(found: NodeFound, severity: FindingSeverity, settings: AgentSettings = WHOLE) -> DoctorFinding:
    (one,) = [finding for finding in findings(found, settings) if finding.severity is severity]
    return one


def test_a_usual_node_has_neither_conflicts_nor_warnings() -> None:
    every = findings(V1, WHOLE)
    assert {finding.severity for finding in every} == {FindingSeverity.NOTE}
    (idle,) = [finding for finding in every if finding.subject == "best_effort_cpu"]
    assert idle.text.startswith(
        "cpu.idle of best-effort work as a whole (qos) is left to its owner: the kubelet writes"
    )
    assert {finding.severity for finding in findings(V2, AgentSettings(roots=("kubepods.slice",)))} == {
        FindingSeverity.NOTE
    }


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (
            replace(V1, writers=(OtherWriter("koordlet", "process 7"),)),
            "koordlet (process 7) writes knobs of groups below /kubepods",
        ),
        (
            replace(V1, writers=(OtherWriter("another keeper", "process 7", ("kubepods/burstable",)),)),
            "another keeper (process 7)",
        ),
        (
            replace(V1, keeper=KeeperFound("", (BEST_EFFORT,))),
            f"the keeper may write below /{BEST_EFFORT}, not /kubepods",
        ),
        (
            replace(V1, roots=("other/kubepods",), absent=("kubepods",)),
            "`writable` names /kubepods, which no kubelet here has",
        ),
    ],
)
def test_a_conflict(found: NodeFound, says: str) -> None:
    one = only(found, FindingSeverity.CONFLICT)
    assert says in one.text
    assert one.to_do
    assert findings(found, WHOLE)[0] == one  # the worst first
    assert conflicts(findings(found, WHOLE)) == (one,)


def test_another_writer_elsewhere_is_none() -> None:
    elsewhere = replace(V1, writers=(OtherWriter("another keeper", "process 7", ("batch.slice",)),))
    assert conflicts(findings(elsewhere, WHOLE)) == ()


@pytest.mark.parametrize(
    ("watch", "severity", "says"),
    [
        ("", FindingSeverity.WARNING, "written again within 0.1 s"),
        ("inotify", FindingSeverity.CONFLICT, "is not noticed at once"),
    ],
)
def test_limits_have_to_stand_beside_systemd(watch: str, severity: FindingSeverity, says: str) -> None:
    unreached = replace(V2, kubelet=replace(V2.kubelet, systemd=None), watch=watch)
    assert says in only(unreached, severity, AgentSettings(roots=("kubepods.slice",))).text


def test_a_static_kubelet_is_a_warning_while_own_cpus_is_on() -> None:
    static = replace(V1, kubelet=replace(KNOWN, cpu_manager="static"))
    assert "static CPU manager gives CPUs on this node" in only(static, FindingSeverity.WARNING).text
    off = AgentSettings(roots=("kubepods",), policies=replace(DEFAULT_POLICIES, own_cpus=None))
    assert texts(static, off, FindingSeverity.WARNING) == []
    # What it leaves of each other policy is said as on any node, and of burst, whose quota it has written again; of
    # own_cpus it was said of the kubelet.
    usual = {finding.subject for finding in findings(V1, WHOLE)}
    assert {finding.subject for finding in findings(static, WHOLE)} == {*usual, "kubelet", "burst"}
    assert [text for text in texts(static, WHOLE, FindingSeverity.NOTE) if text.startswith("cpu.max.burst of services")]


def test_memory_that_the_kubelet_protects_is_left_to_it() -> None:
    memory = AgentSettings(roots=("kubepods.slice",), policies=PolicySettings(memory=MemoryQosConfig()))
    protects = replace(V2, kubelet=replace(V2.kubelet, memory_qos=True))
    left = [finding for finding in findings(protects, memory) if finding.severity is FindingSeverity.WARNING]
    assert {(finding.subject, finding.to_do) for finding in left} == {("memory", "switch memory off here")}
    assert "memory.min, memory.low of protection of memory (qos, pod, container) is left to its owner" in left[0].text
    assert texts(V2, memory, FindingSeverity.WARNING) == []


def test_policies_for_services_want_their_groups() -> None:
    best_effort = AgentSettings(roots=(SLICE,))
    assert only(V2, FindingSeverity.WARNING, best_effort).text.startswith(
        "burst, own_cpus: on, but `writable` has best-effort"
    )
    quiet = replace(best_effort, policies=replace(DEFAULT_POLICIES, own_cpus=None, burst=None))
    assert texts(V2, quiet, FindingSeverity.WARNING) == []


def test_a_keeper_that_is_away_or_writes_less_is_a_warning() -> None:
    away = replace(V1, keeper=KeeperFound("the keeper at k does not answer"))
    assert only(away, FindingSeverity.WARNING).text == "the keeper at k does not answer"
    less = replace(V1, keeper=KeeperFound("", ("kubepods",), frozenset(Knob) - {Knob.CPUSET_CPUS}))
    assert texts(less, WHOLE, FindingSeverity.WARNING) == [
        "the keeper does not write cpuset.cpus, which the policy best_effort_cpu wants",
        "the keeper does not write cpuset.cpus, which the policy own_cpus wants",
    ]
    two = AgentSettings(roots=("kubepods", "batch.slice"))
    assert texts(V1, two, FindingSeverity.WARNING) == ["the keeper may write below /kubepods, not /batch.slice"]


def test_what_is_missing_is_said_where_a_policy_wants_it() -> None:
    lacking = replace(V1, unsupported=((Knob.CPUSET_CPUS, "a cpuset"), (Knob.IO_MAX, "a disk")), pressure="PSI")
    assert only(lacking, FindingSeverity.WARNING).to_do == "provide a cpuset"  # no policy for disks is on
    assert any("judges by run delay alone" in text for text in texts(lacking, WHOLE, FindingSeverity.NOTE))


def test_without_a_kubelet_plain_groups_are_waited_for() -> None:
    bare = NodeFound("v2", absent=("batch.slice",))
    assert findings(bare, AgentSettings(roots=("batch.slice",))) == (
        DoctorFinding(FindingSeverity.NOTE, "groups", "/batch.slice does not exist (yet): it is waited for"),
    )
    assert texts(bare, AgentSettings(), FindingSeverity.WARNING) == [
        "`writable` names no group: no knob may be written"
    ]


def test_two_roots_are_told() -> None:
    both = replace(V1, roots=("kubepods", "kubepods.slice"))
    assert (
        "there are 2 groups of kubelets, /kubepods, /kubepods.slice" in texts(both, WHOLE, FindingSeverity.WARNING)[0]
    )


def test_a_missing_seal_is_a_note_where_there_are_pods() -> None:
    said = "no seal key: what pods say that they hold is cross-checked only"
    without = replace(V1, seal=said)
    assert said in texts(without, WHOLE, FindingSeverity.NOTE)
    assert said not in texts(V1, WHOLE, FindingSeverity.NOTE)
    assert said not in texts(replace(without, roots=()), WHOLE, FindingSeverity.NOTE)


def test_what_kernel_schedulers_of_zones_need_is_a_note() -> None:
    none = replace(V2, schedulers="Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT (this is 6.1.0)")
    (note,) = [one for one in findings(none, WHOLE) if "Control Zones" in one.text]
    assert (note.severity, note.text) == (
        FindingSeverity.NOTE,
        "Control Zones have cgroup weights here and no kernel scheduler",
    )
    assert note.to_do == "provide Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT (this is 6.1.0)"
    root = replace(V2, sub_schedulers="Linux 7.3 or later (this is 6.18.15)")
    (note,) = [one for one in findings(root, WHOLE) if "Control Zones" in one.text]
    assert note.text == "Control Zones have no kernel scheduler for one group here"
    assert not [one for one in findings(V2, WHOLE) if "Control Zones" in one.text]
