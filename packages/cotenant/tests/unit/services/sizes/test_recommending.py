from __future__ import annotations

import msgspec
import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]

from cotenant.drivers.kube.kinds import namespace_limits as limits
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.assess.history import AssessedHistory, PodHistory
from cotenant.model.assess.prices import PricedNode, PriceTable, UnitPrices
from cotenant.model.errors import InvalidInput
from cotenant.model.sizes.container import ContainerProgram, ContainerSize, SizedContainer, SizedPod
from cotenant.services.sizes.forms import written
from cotenant.services.sizes.recommending import Advice, SizeQuery, advise
from cotenant.services.sizes.size_facts import SizedCluster

MIB = 1 << 20
START_S = 1_767_571_200.0  # a Monday
BIG = ContainerSize(3000, 4000, 4096 * MIB, 8192 * MIB)


def pod(name: str, *containers: SizedContainer, kind: str = "ReplicaSet", running: bool = True) -> SizedPod:
    return SizedPod("ns", name, name, "n1", kind, "web-1", running, running, containers)


def app(name: str = "app", size: ContainerSize = BIG, *words: str) -> SizedContainer:
    return SizedContainer(name, size, ContainerProgram(words))


def cluster(*pods: SizedPod, **more: object) -> SizedCluster:
    return SizedCluster(
        pods,
        {("ns", "ReplicaSet", "web-1"): ("Deployment", "web")},
        {"n1": PricedNode("n1", 16_000, 65_536)},
        **more,  # type: ignore[arg-type]
    )


def history(names: tuple[str, ...], cpu: float = 900.0, hours: int = 192, workload: str = "") -> PodHistory:
    rows = len(names)
    use = np.full((rows, hours), cpu, np.float32)
    memory = np.full((rows, hours), 1000.0, np.float32)
    unknown = np.full(rows, np.nan, np.float32)
    series = AssessedHistory(START_S, 3600.0, names, use, memory, "From a test.")
    return PodHistory(series, ("",) * rows, (workload,) * rows, unknown, unknown)


def asked(
    of: SizedCluster, use: PodHistory, wanted: SizeQuery | None = None, prices: PriceTable | None = None
) -> Advice:
    return advise(of, use, (), wanted or SizeQuery(), prices)


TWO = cluster(pod("a", app()), pod("b", app()))


def test_one_size_for_all_replicas_with_money() -> None:
    prices = PriceTable("EUR", (), UnitPrices(0.03, 0.004))
    found = asked(TWO, history(("ns/a/app", "ns/b/app")), prices=prices)
    (one,) = found.recommendations
    assert (one.workload, one.container, one.replicas) == ("ns/Deployment/web", "app", 2)
    assert one.after is not None
    assert 900 <= (one.after.cpu_request_m or 0) <= 950
    assert one.after.memory_limit_bytes == 1200 * MIB
    cores, gib = (3000 - (one.after.cpu_request_m or 0)) / 1000, 4 - (one.after.memory_request_bytes or 0) / 2**30
    assert one.money_week == pytest.approx(2 * 168 * (cores * 0.03 + gib * 0.004))
    assert found.currency == "EUR"


def test_pods_that_are_gone_count_by_their_workload() -> None:
    use = history(("ns/gone/app", "ns/a/app"), workload="ns/Deployment/web")
    use.use.cpu_m[0, 100] = 2500.0
    (one,) = asked(TWO, use).recommendations
    assert one.cpu is not None
    assert one.cpu.highest == 2500.0


def test_a_history_of_whole_pods_is_of_the_only_container_and_not_of_one_among_several() -> None:
    assert asked(TWO, history(("ns/a",))).recommendations[0].after is not None
    several = cluster(pod("a", app("app"), app("proxy")))
    for one in asked(several, history(("ns/a",))).recommendations:
        assert one.after is None
        assert "does not say which of its containers" in one.why[0]
    by_container = asked(several, history(("ns/a/app", "ns/a/proxy"))).recommendations
    assert all(one.after is not None for one in by_container)


def test_an_hour_is_too_short_and_no_history_is_a_sentence() -> None:
    (one,) = asked(TWO, history(("ns/a",), hours=1)).recommendations
    assert (one.after, one.why) == (None, ("1 h of its use are known, a size needs 24 h",))
    assert asked(TWO, history(("ns/a",), hours=1), SizeQuery(min_history_s=0.0)).recommendations[0].after is not None
    (none,) = asked(TWO, history(())).recommendations
    assert none.why == ("nothing is known of its use",)


def test_the_workload_is_found_by_name_or_named_as_missing() -> None:
    use = history(("ns/a",))
    assert asked(TWO, use, SizeQuery("ns/web")).recommendations
    assert asked(TWO, use, SizeQuery("ns/Deployment/web")).recommendations
    with pytest.raises(InvalidInput, match="a workload with running pods"):
        asked(TWO, use, SizeQuery("ns/other"))


def scaler(resource: str, container: str | None = None) -> limits.AutoscalerObject:
    metric = limits._ResourceMetric(name=resource, container=container)
    kind = limits.ScaleMetric(type="ContainerResource", container_resource=metric) if container else limits.ScaleMetric(
        type="Resource", resource=metric
    )  # fmt: skip
    target = limits.ScaleTarget(kind="Deployment", name="web")
    return limits.AutoscalerObject(
        metadata=ObjectMeta(name="h", namespace="ns"),
        spec=limits._ScalerSpec(scale_target_ref=target, metrics=(kind,)),
    )


def test_an_autoscaler_on_the_same_metric_is_named_and_respected() -> None:
    of = cluster(pod("a", app()), autoscalers=(scaler("cpu"),))
    (one,) = asked(of, history(("ns/a",))).recommendations
    assert one.after is not None
    assert (one.after.cpu_request_m, one.after.cpu_limit_m) == (3000, 4000)
    assert (one.after.memory_request_bytes or 0) < 4096 * MIB
    assert "HorizontalPodAutoscaler h scales by it" in one.why[0]
    other = cluster(pod("a", app()), autoscalers=(scaler("cpu", "proxy"),))
    (free,) = asked(other, history(("ns/a",))).recommendations
    assert free.after is not None
    assert (free.after.cpu_request_m or 0) < 1000


def test_a_limit_range_of_containers_bounds_and_is_named() -> None:
    item = limits.LimitRangeItem(type="Container", min={"cpu": "2"})
    of_ns = limits.LimitRangeObject(
        metadata=ObjectMeta(name="l", namespace="ns"), spec=limits._LimitRangeSpec(limits=(item,))
    )
    (one,) = asked(cluster(pod("a", app()), limit_ranges=(of_ns,)), history(("ns/a",))).recommendations
    assert one.after is not None
    assert one.after.cpu_request_m == 2000
    assert "LimitRange l does not allow a CPU request of" in one.why[0]


def test_a_quota_that_does_not_leave_enough_is_named() -> None:
    small = ContainerSize(100, None, 100 * MIB, None)
    status = limits._QuotaStatus(hard={"requests.cpu": "1", "memory": "4Gi"}, used={"requests.cpu": "500m"})
    quota = limits.ResourceQuotaObject(metadata=ObjectMeta(name="q", namespace="ns"), status=status)
    of = cluster(pod("a", app(size=small)), pod("b", app(size=small)), quotas=(quota,))
    (one,) = asked(of, history(("ns/a",))).recommendations
    assert one.why[-1].startswith("ResourceQuota q leaves 0.5 cores of requests.cpu, the sizes of this namespace")
    assert len(one.why) == 1  # of memory there is enough


@pytest.mark.parametrize(
    ("hard", "used", "said"),
    [
        ({"requests.cpu": "1"}, {"requests.cpu": "500m"}, "leaves 0.5 cores of requests.cpu"),
        ({"cpu": "1"}, {"cpu": "2"}, "leaves 0 cores of cpu"),  # it is over already
        ({"cpu": "1"}, {}, "leaves 1 cores of cpu"),
        ({"requests.memory": "1Gi"}, {"requests.memory": "512Mi"}, "leaves 512 MiB of requests.memory"),
        ({"memory": "1Gi", "requests.memory": "64Gi"}, {"memory": "1Gi"}, ""),  # the longer name counts
        ({"limits.cpu": "1m", "limits.memory": "1Mi", "pods": "1"}, {"pods": "1"}, ""),  # no limit is recommended
        ({}, {}, ""),
    ],
)
def test_what_a_quota_leaves_is_read_in_its_unit(hard: dict[str, str], used: dict[str, str], said: str) -> None:
    small = ContainerSize(100, None, 100 * MIB, None)
    quota = limits.ResourceQuotaObject(
        metadata=ObjectMeta(name="q", namespace="ns"), status=limits._QuotaStatus(hard=hard, used=used)
    )
    of = cluster(pod("a", app(size=small)), pod("b", app(size=small)), quotas=(quota,))
    (one,) = asked(of, history(("ns/a",))).recommendations
    found = [why for why in one.why if why.startswith("ResourceQuota")]
    assert len(found) == bool(said)
    assert all(said in why for why in found)


def test_different_sizes_of_one_workload_are_said() -> None:
    of = cluster(pod("a", app()), pod("b", app()), pod("c", app(size=ContainerSize(100))))
    (one,) = asked(of, history(("ns/a",))).recommendations
    assert one.before == BIG
    assert "2 different sizes" in one.why[-1]


@pytest.mark.parametrize("form", ["patch", "vpa", "yaml"])
def test_documents_say_what_is_set_and_why_and_what_it_costs(form: str) -> None:
    prices = PriceTable("EUR", (), UnitPrices(0.03, 0.004))
    text = written(form, asked(TWO, history(("ns/a/app",)), prices=prices))
    assert "# app: CPU set by Mon" in text
    assert "# app: last week at this size, of 10,080 replica-minutes: 0 above the CPU request, 0 throttled" in text
    assert "# app: saves " in text
    if form == "patch":
        assert 'kubectl -n ns patch deployment web --type strategic -p \'{"spec":' in text
        return
    (document,) = [found for found in yaml.safe_load_all(text) if found]
    if form == "yaml":
        (container,) = document["spec"]["template"]["spec"]["containers"]
        assert (document["kind"], container["name"]) == ("Deployment", "app")
        assert container["resources"]["limits"] == {"cpu": "4", "memory": "1200Mi"}
    else:
        policy, others = document["spec"]["resourcePolicy"]["containerPolicies"]
        assert others == {"containerName": "*", "mode": "Off"}
        assert policy["minAllowed"] == policy["maxAllowed"]
        assert document["spec"]["targetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def test_a_template_that_cannot_be_changed_is_a_comment() -> None:
    of = SizedCluster((pod("a", app(), kind="Job"),), {}, {})
    text = written("yaml", asked(of, history(("ns/a",))))
    assert "# not written: the template of a Job cannot be changed" in text
    assert "kind: Job" not in text


def test_the_autoscaler_of_another_workload_holds_nothing() -> None:
    mine = scaler("cpu")
    target = limits.ScaleTarget(kind="Deployment", name="other")
    others = [
        msgspec.structs.replace(mine, spec=msgspec.structs.replace(mine.spec, scale_target_ref=target)),
        msgspec.structs.replace(mine, metadata=ObjectMeta(name="h", namespace="elsewhere")),
    ]
    for other in others:
        (free,) = asked(cluster(pod("a", app()), autoscalers=(other,)), history(("ns/a",))).recommendations
        assert free.after is not None
        assert (free.after.cpu_request_m or 0) < 1000


def test_a_vpa_object_keeps_a_guaranteed_container_guaranteed() -> None:
    same = ContainerSize(3000, 3000, 4096 * MIB, 4096 * MIB)
    for size, values in ((same, "RequestsAndLimits"), (BIG, "RequestsOnly")):
        of = cluster(pod("a", app(size=size)))
        (document,) = yaml.safe_load_all(written("vpa", asked(of, history(("ns/a/app",)))))
        policies = document["spec"]["resourcePolicy"]["containerPolicies"]
        assert policies[0]["controlledValues"] == values


def test_names_that_another_parser_takes_for_numbers_or_truths_are_quoted() -> None:
    of = cluster(*(pod(name, app("1e3"), app("y"), app("0o7"), app("app")) for name in "ab"))
    use = history(("ns/a/1e3", "ns/a/y", "ns/a/0o7", "ns/a/app"))
    text = written("yaml", asked(of, use))
    for name in ("'1e3'", "'y'", "'0o7'", "app"):
        assert f"- name: {name}\n" in text
    assert text.count("cpu: '4'") == 4


def test_hours_of_use_days_apart_are_no_history_of_days() -> None:
    use = history(("ns/a/app", "ns/b/app"))
    use.use.cpu_m[:, 1:-1] = np.nan
    (one,) = asked(TWO, use).recommendations
    assert one.why == ("2 h of its use are known, a size needs 24 h",)


def test_a_counter_that_jumped_squeezes_nobody_in_the_week_that_is_shown() -> None:
    use = history(("ns/a/app", "ns/b/app"))
    use.use.cpu_m[0, -5] = 4e9
    use.use.memory_mib[1, -7] = 4e9
    (one,) = asked(TWO, use).recommendations
    assert one.week is not None
    assert (one.week.squeezed, one.week.throttled, one.week.evictable, one.week.killed) == (0.0, 0.0, 0.0, 0.0)
