from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.zones.apart import ApartRule, Within
from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.table import ThreadRow, ZoneClass, ZoneRow
from cotenant.services.zones.definition import (
    BackendChoice,
    ClassRule,
    GroupClass,
    ZoneApplication,
    ZoneDefinition,
    ZoneGroup,
)
from cotenant.services.zones.zone_files import read_definition

EXAMPLE = """
zone: shop
backend: auto
groups:
  - {group: kubepods.slice/web, kind: service, late_ms: 5}
  - {group: kubepods.slice/batch, kind: batch, slice_us: 10000}
policy: {late_per_s: 4}
limits: {canary_s: 2}
"""


def read(tmp_path: Path, text: str) -> ZoneDefinition:
    path = tmp_path / "shop.yaml"
    path.write_text(text)
    return read_definition(path)


def test_a_file_becomes_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(EXAMPLE)
    definition = read_definition(path)
    assert definition.groups[0].row() == ZoneRow(ZoneClass.SERVICE, late_us=5000)
    assert definition.ladder(root=True) == (ZoneSetting(Backend.ROOT, ZoneMode.WEIGHTED), ZoneSetting(Backend.WEIGHTS))
    assert definition.ladder(root=False) == (ZoneSetting(Backend.WEIGHTS),)
    assert definition.machine(root=True).rows["kubepods.slice/batch"].slice_us == 10_000


def test_the_ladder_has_what_this_host_can_best_first(tmp_path: Path) -> None:
    auto = read(tmp_path, EXAMPLE)
    assert auto.common_group == "kubepods.slice"
    start = auto.start
    sub, root, weights = ZoneSetting(Backend.SUB, start), ZoneSetting(Backend.ROOT, start), ZoneSetting(Backend.WEIGHTS)
    assert auto.ladder(root=True, sub=True) == (sub, root, weights)
    assert auto.ladder(root=True) == (root, weights)
    apart = read(tmp_path, EXAMPLE.replace("kubepods.slice/batch", "batch.slice"))
    assert apart.common_group == ""
    assert apart.ladder(root=True, sub=True) == (root, weights)
    alone = read(tmp_path, EXAMPLE.replace("backend: auto", "backend: sub"))
    assert alone.ladder(root=True, sub=True) == (sub,)
    near = read(tmp_path, EXAMPLE.replace("kubepods.slice/batch", "kubepods.slice/web-batch"))
    assert near.common_group == "kubepods.slice"


def test_cpus_of_services_own_are_had_by_name_only(tmp_path: Path) -> None:
    assert ZoneMode.EXCLUSIVE not in read(tmp_path, EXAMPLE).modes
    text = EXAMPLE + "start: exclusive\nmodes: [exclusive, latency]\nexclusive: {cpus: 2}\n"
    assert read(tmp_path, text).exclusive.cpus == 2
    with pytest.raises(InvalidInput, match=r"exclusive\.share.*more than 0 and less than 1"):
        read(tmp_path, text.replace("cpus: 2", "share: 1.5"))
    assert read(tmp_path, EXAMPLE + "start: exclusive\n").modes == (*USUAL_MODES, ZoneMode.EXCLUSIVE)
    with pytest.raises(InvalidInput, match="one of modes: latency"):
        read(tmp_path, EXAMPLE + "start: exclusive\nmodes: [latency]\n")
    with pytest.raises(InvalidInput, match=r"vm\.cpus.*2 or more"):
        read(tmp_path, text + "vm: {cpus: 1}\n")


def test_cores_without_batch_are_had_by_name_only_and_not_in_a_guest(tmp_path: Path) -> None:
    assert ZoneMode.SIBLINGS not in read(tmp_path, EXAMPLE).modes
    text = EXAMPLE + "start: siblings\n"
    assert read(tmp_path, text).modes == (*USUAL_MODES, ZoneMode.SIBLINGS)
    with pytest.raises(InvalidInput, match="none in a guest, whose CPUs are not threads"):
        read(tmp_path, text + "vm: {cpus: 2}\n")


TENANTS = """
zone: tenants
backend: root
groups:
  - {group: a, kind: batch, party: tenant-a}
  - {group: b, kind: batch, party: tenant-b}
  - {group: web, kind: service, late_ms: 5, party: web}
"""
ALWAYS = "apart: [{parties: [tenant-a, tenant-b]}]\n"
LATE = "apart: [{parties: [web, tenant-a], within: machine, when: late}]\n"


def test_rules_of_parties_choose_the_scheduler_that_keeps_them(tmp_path: Path) -> None:
    zone = read(tmp_path, TENANTS + ALWAYS)
    assert (zone.modes, zone.start) == ((ZoneMode.APART,), ZoneMode.APART)
    assert zone.rows()["a"].party == "tenant-a"
    assert zone.apart == (ApartRule(("tenant-a", "tenant-b")),)
    late = read(tmp_path, TENANTS + LATE + "modes: [latency, apart]\nstart: latency\n")
    assert late.modes == (ZoneMode.LATENCY, ZoneMode.APART)
    assert late.apart[0].within is Within.MACHINE
    found = read(
        tmp_path,
        "zone: t\nbackend: root\napplications: [{namespace: a}]\n"
        "rules: [{kind: batch, labels: {t: a}, party: a}, {kind: batch, party: b}]\napart: [{parties: [a, b]}]\n",
    )
    assert [rule.row().party for rule in found.rules] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TENANTS + ALWAYS + "modes: [latency, apart]\nstart: latency\n", "apart alone where a rule always holds"),
        (TENANTS + LATE + "modes: [latency]\nstart: latency\n", "apart among them"),
        (TENANTS + "start: apart\n", "rules in the field apart"),
        (TENANTS + ALWAYS.replace("tenant-b", "tenant-c"), "the party of a group or a rule"),
        (TENANTS.replace("root", "auto") + ALWAYS, "weights keep no rule"),
        (TENANTS + ALWAYS + "vm: {cpus: 2}\n", "weights keep no rule"),
        (TENANTS.replace("tenant-a", "A"), "1 to 40 of a-z"),
        (TENANTS + ALWAYS.replace("}]", ", within: socket}]"), "core, cache, machine"),
        (TENANTS + "apart: [" + "{parties: [tenant-a, tenant-b]}," * 33 + "]\n", "at most 32 rules"),
    ],
)
def test_rules_that_nothing_would_keep_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=expected):
        read(tmp_path, text)


def test_threads_have_rows_of_their_own_where_a_scheduler_is_loaded(tmp_path: Path) -> None:
    thread = "threads: [{name: 'gc*', kind: batch, slice_us: 500}]"
    text = f"zone: shop\nbackend: auto\ngroups: [{{group: a, kind: service, late_ms: 5, {thread}}}]\n"
    own = (ThreadRow("gc*", ZoneClass.BATCH, 500),)
    assert read(tmp_path, text).groups[0].row() == ZoneRow(ZoneClass.SERVICE, late_us=5000, threads=own)
    rule = f"zone: shop\nbackend: auto\napplications: [{{namespace: a}}]\nrules: [{{kind: service, {thread}}}]\n"
    assert read(tmp_path, rule).rules[0].row().threads == own
    with pytest.raises(InvalidInput, match="backend auto, root or sub"):
        read(tmp_path, text.replace("auto", "weights"))
    with pytest.raises(InvalidInput, match=r"with \* after its beginning"):
        read(tmp_path, text.replace("gc*", "g*c"))


def test_a_sub_scheduler_needs_one_group_that_contains_all(tmp_path: Path) -> None:
    text = EXAMPLE.replace("backend: auto", "backend: sub").replace("kubepods.slice/batch", "batch.slice")
    with pytest.raises(InvalidInput, match="below one common group"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("wrong", "instead", "expected"),
    [
        ("zone: shop", "zone: ../shop", "a-z, 0-9"),
        ("kubepods.slice/batch", "../../etc", "'..'"),
        ("kubepods.slice/batch", "/etc", "below the cgroup tree's root"),
        ("kubepods.slice/batch", "kubepods.slice/web/x", "not one another's"),
        ("kubepods.slice/batch", "kubepods.slice/web", "not listed twice"),
        ("kind: batch", "kind: bach", "one of service, batch"),
        ("late_per_s: 4", "late_per_s: 0", "more than 0"),
        ("late_per_s: 4", "late_per_s: .nan", "more than 0"),
        ("late_per_s: 4", "calm_s: .inf", "more than 0"),
        ("canary_s: 2", "ban_s: .inf", "more than 0 seconds"),
        ("canary_s: 2", "dwell_s: .nan", "more than 0 seconds"),
        ("late_ms: 5", "late_ms: .inf", "0 to 10000 milliseconds"),
        ("late_ms: 5", "late_ms: .nan", "0 to 10000 milliseconds"),
        ("late_ms: 5", "late_ms: -1", "0 to 10000 milliseconds"),
        ("late_per_s", "late_pers", "did you mean late_per_s"),
        ("canary_s: 2", "canary_s: -2", "more than 0 seconds"),
        ("slice_us: 10000", "slice_us: 9000000", "0 to 100000"),
        ("zone: shop", "zone: shop\nstart: latency\nmodes: [weighted]", "one of modes: weighted"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, wrong: str, instead: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(tmp_path, EXAMPLE.replace(wrong, instead, 1))
    assert expected in str(error.value)
    assert "shop.yaml" in str(error.value)


SELECTING = """
zone: shop
applications:
  - {namespace: shop, labels: {app: web}}
  - {namespace: jobs}
rules:
  - {labels: {tier: front}, kind: service, late_ms: 5}
  - {kind: batch, slice_us: 10000}
backend: auto
"""
MANIFEST = """
apiVersion: slo.cotenant.io/v1alpha1
kind: ControlZone
metadata: {name: shop}
spec:
  applications:
    - {namespace: shop, labels: {app: web}}
    - {namespace: jobs}
  rules:
    - {labels: {tier: front}, kind: service, lateMs: 5}
    - {kind: batch, sliceUs: 10000}
  backend: auto
"""


def test_pods_have_the_row_of_the_first_rule_that_matches(tmp_path: Path) -> None:
    definition = read(tmp_path, SELECTING)
    web = definition.rule_for("shop", {"app": "web", "tier": "front"})
    job = definition.rule_for("jobs", {})
    assert web is not None
    assert job is not None
    assert web.row() == ZoneRow(ZoneClass.SERVICE, late_us=5000)
    assert job.row() == ZoneRow(ZoneClass.BATCH, slice_us=10_000)
    assert definition.rule_for("shop", {"app": "db", "tier": "front"}) is None
    assert definition.rule_for("default", {"app": "web"}) is None
    assert definition.common_group == ""
    assert definition.ladder(root=True, sub=True)[0].backend is Backend.ROOT
    assert definition.machine(root=False).rows == {}


def test_a_control_zone_is_the_same_zone_as_the_plain_file(tmp_path: Path) -> None:
    assert read(tmp_path, MANIFEST) == read(tmp_path, SELECTING)


@pytest.mark.parametrize(
    ("wrong", "instead", "expected"),
    [
        ("lateMs: 5", "lateMS: 5", "spec.rules[0].lateMS: expected fields that exist; lateMs exists"),
        ("lateMs: 5", "lateMs: -5", "spec.rules[0]"),
        ("kind: batch", "kind: bach", "spec.rules[1].kind: bach: expected one of service, batch"),
        ("sliceUs: 10000", "sliceUs: many", "spec.rules[1].sliceUs: many: expected a whole number"),
        ("backend: auto", "backend: sub", "none with backend sub"),
        ("backend: auto", "limits: {canaryS: 0}", "canary"),
        ("name: shop", "name: Shop", "metadata.name: Shop: expected 1 to 40 of a-z"),
        ("metadata: {name: shop}", "metadata: {}", "metadata.name"),
        ("kind: ControlZone", "kind: Zone", "slo.cotenant.io/v1alpha1 ControlZone"),
        ("namespace: jobs", "labels: {}", "selects every pod"),
        ("{app: web}", "{app: 7}", "labels"),
        ("spec:", "specs:", "spec: NoneType: expected a mapping"),
    ],
)
def test_a_wrong_control_zone_is_one_clear_line(tmp_path: Path, wrong: str, instead: str, expected: str) -> None:
    assert wrong in MANIFEST
    with pytest.raises(InvalidInput) as error:
        read(tmp_path, MANIFEST.replace(wrong, instead, 1))
    assert expected in str(error.value)
    assert "shop.yaml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", ["rules", "applications"])
def test_applications_need_rules_and_rules_applications(tmp_path: Path, missing: str) -> None:
    text = SELECTING.replace(f"{missing}:", "modes: [weighted]\nignored:")
    document = text[: text.index("ignored:")] + "".join(
        text[text.index("rules:") :] if missing == "applications" else "backend: auto"
    )
    if missing == "applications":
        document += "groups: [{group: a, kind: batch}]"
    with pytest.raises(InvalidInput, match=missing):
        read(tmp_path, document)


def test_the_example_is_a_zone() -> None:
    definition = read_definition(Path(__file__).parents[6] / "examples/13-control-zone.yaml")
    assert definition.rule_for("shop", {"tier": "front"}) == definition.rules[0]
    assert definition.rule_for("jobs", {}) == definition.rules[1]


def test_the_example_with_a_machine_is_one() -> None:
    definition = read_definition(Path(__file__).parents[6] / "examples/13-control-zone-machine.yaml")
    assert definition.vm is not None
    assert (definition.vm.namespace, definition.vm.kernel.preempt) == ("shop", "lazy")
    assert {pod.name: pod.kind for pod in definition.pods} == {"web": "service", "batch": "batch"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a readable file"):
        read_definition(tmp_path / "none.yaml")


def test_pods_are_selected_by_their_namespace_and_all_of_the_labels() -> None:
    both = ZoneApplication("shop", {"app": "web", "tier": "front"})
    assert both.selects("shop", {"app": "web", "tier": "front", "more": "1"})
    assert not both.selects("other", {"app": "web", "tier": "front"})
    assert not both.selects("shop", {"app": "web"})
    assert not both.selects("shop", {"app": "web", "tier": "back"})
    assert ZoneApplication(labels={"app": "web"}).selects("any", {"app": "web"})
    assert ZoneApplication("shop").selects("shop", {})


@pytest.mark.parametrize(
    ("labels", "characters", "is_fine"), [(16, 1, True), (17, 1, False), (1, 317, True), (1, 318, False)]
)
def test_labels_have_bounds(labels: int, characters: int, is_fine: bool) -> None:
    given = {f"{number:0>{characters}}"[-characters:] if labels == 1 else str(number): "v" for number in range(labels)}
    for make in (lambda: ZoneApplication("shop", given), lambda: ClassRule(GroupClass.SERVICE, given)):
        if is_fine:
            make()
        else:
            with pytest.raises(InvalidInput, match=r"labels.*at most"):
                make()


SERVICE, BATCH = ZoneGroup("a/web", GroupClass.SERVICE), ZoneGroup("a/batch", GroupClass.BATCH)
WEB, RULE = ZoneApplication("shop"), ClassRule(GroupClass.SERVICE)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"zone": "Shop"}, "zone"),
        ({"zone": "a" * 41}, "zone"),
        ({"groups": ()}, "groups"),
        ({"groups": (SERVICE, SERVICE)}, "not listed twice"),
        ({"groups": (SERVICE, ZoneGroup("a/web/x", GroupClass.BATCH))}, "not one another's"),
        ({"applications": (WEB,)}, "rules.*a rule that gives"),
        ({"rules": (RULE,)}, "applications.*the pods that the rules are for"),
        ({"applications": (WEB,), "rules": (RULE,), "backend": BackendChoice.SUB}, "applications.*none with backend"),
        ({"groups": (SERVICE, ZoneGroup("b", GroupClass.BATCH)), "backend": BackendChoice.SUB}, "one common group"),
        ({"start": ZoneMode.EXCLUSIVE, "modes": (ZoneMode.LATENCY,)}, "start.*one of modes: latency"),
        ({"period_ms": 99}, "period_ms"),
        ({"period_ms": 10_001}, "period_ms"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        zone_of(fields)


def zone_of(fields: dict[str, Any]) -> ZoneDefinition:
    given: dict[str, Any] = {"zone": "shop", "groups": (SERVICE, BATCH), **fields}
    return ZoneDefinition(**given)


def test_what_fits_is_a_zone() -> None:
    fits: list[dict[str, Any]] = [{"zone": "a" * 40}, {"period_ms": 100}, {"period_ms": 10_000}]
    for fields in (*fits, {"backend": BackendChoice.SUB}):
        zone_of(fields)
    found = ZoneDefinition("shop", (SERVICE,), start=ZoneMode.EXCLUSIVE)
    assert found.modes == (*USUAL_MODES, ZoneMode.EXCLUSIVE)
    assert found.common_group == "a/web"
    assert ZoneDefinition("shop", applications=(WEB,), rules=(RULE,)).common_group == ""
    assert not found.reads_host_files


def test_the_first_rule_that_matches_is_a_pods() -> None:
    rules = (ClassRule(GroupClass.BATCH, {"app": "job"}), ClassRule(GroupClass.SERVICE))
    zone = ZoneDefinition("shop", applications=(WEB,), rules=rules)
    assert zone.rule_for("shop", {"app": "job"}) is rules[0]
    assert zone.rule_for("shop", {"app": "web"}) is rules[1]
    assert zone.rule_for("other", {"app": "job"}) is None
    assert ZoneDefinition("shop", applications=(WEB,), rules=rules[:1]).rule_for("shop", {}) is None
