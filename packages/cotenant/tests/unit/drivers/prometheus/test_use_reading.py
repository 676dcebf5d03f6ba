from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from tests.fakes.servers.fake_prometheus import FakePrometheus, Question, Reply, matrix, refusal, vector

from cotenant.drivers.prometheus import layouts
from cotenant.drivers.prometheus.client import Prometheus, PrometheusClient
from cotenant.drivers.prometheus.pod_states import workload_of
from cotenant.drivers.prometheus.use_reading import HistoryRequest, read_history
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.errors import InvalidInput, Transient

NOW_S = 1_000_000.0
SMALL = HistoryRequest(days=1 / 24, step_s=600)
POD = {"namespace": "ns", "pod": "a"}


def answers(changed: Mapping[str, Reply] | None = None) -> Callable[[Question], Reply]:
    """A store with one pod by cAdvisor's names; `changed` answers what matches a pattern, the first that does."""

    def answer(question: Question) -> Reply:
        for pattern, reply in (changed or {}).items():
            if re.search(pattern, question.query):
                return reply
        query = question.query
        if query == "vector(time())":
            return vector(({}, NOW_S))
        if "exported" in query and "kube_replicaset_owner" not in query:
            return vector()
        if query.startswith("count(container_cpu"):
            return vector(({}, 1))
        if query.startswith("max(count_over_time"):
            return vector(({}, 20))
        if query.startswith("count(count by (node)"):
            return vector(({}, 1))
        if query.startswith("count(kube_pod_info"):
            return vector(({}, 1))
        if query.startswith("group by (namespace,pod,node"):
            info = {**POD, "node": "n1", "created_by_kind": "ReplicaSet", "created_by_name": "web-5d4f"}
            return vector((info, 1))
        if "kube_replicaset_owner" in query:
            owner = {"namespace": "ns", "replicaset": "web-5d4f", "owner_kind": "Deployment", "owner_name": "web"}
            return vector((owner, 1))
        if "resource_requests{" in query:
            return vector(({**POD, "resource": "cpu"}, 0.25), ({**POD, "resource": "memory"}, 2**28))
        if question.path.endswith("query_range"):
            labels = POD if "namespace" in query else {"node": "n1"}
            return matrix((labels, [(t, 0.5 if "cpu" in query else 2**30) for t in question.columns]))
        return vector()

    return answer


def read(answer: Callable[[Question], Reply], now_s: float = NOW_S, request: HistoryRequest = SMALL) -> ClusterHistory:
    async def ask() -> ClusterHistory:
        async with FakePrometheus(answer) as server:
            prometheus = Prometheus(server.url, qps=1e6, max_tries=1)
            async with PrometheusClient(prometheus, monotonic=lambda: 0.0) as client:
                return await read_history(client, request, now_s)

    return asyncio.run(ask())


def test_a_history_with_all_that_joins_it() -> None:
    found = read(answers())
    use = found.pods.use
    assert (use.names, use.step_s, use.steps) == (("ns/a",), 600.0, 6)
    assert use.end_s - use.step_s == NOW_S // 600 * 600
    np.testing.assert_array_equal(use.cpu_m, np.full((1, 6), 500))
    np.testing.assert_array_equal(use.memory_mib, np.full((1, 6), 1024))
    assert (found.pods.node, found.pods.workload) == (("n1",), ("ns/Deployment/web",))
    assert (found.pods.cpu_request_m.tolist(), found.pods.memory_request_mib.tolist()) == ([250], [256])
    assert (found.nodes.names, found.nodes.cpu_m[0, 0]) == (("n1",), 500)
    assert use.source.startswith("Use by Prometheus (cAdvisor, scraped every 30 s): means over 600 s of 0.0417 days")
    assert found.faults == ()


def test_matchers_narrow_every_question() -> None:
    asked: list[str] = []

    def answer(question: Question) -> Reply:
        asked.append(question.query)
        return answers()(question)

    read(answer, request=HistoryRequest(days=1 / 24, step_s=600, matchers={"cluster": 'a"b'}))
    assert all('cluster="a\\"b"' in query for query in asked if query != "vector(time())")


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (
            {r"avg_over_time\(container_memory.*container!": refusal(400, "no blocks")},
            "memory of pods: status 400: no blocks",
        ),
        ({"kube_pod_info": refusal(400, "no such store")}, "kube-state-metrics has no pods here"),
        ({"resource_requests": refusal(500, "away")}, "pods' requests: status 500: away"),
        ({r'id="/"': vector(), "node_": vector(), "instance": vector()}, "use of whole nodes is not in the store"),
        (
            {"kube_node_info.*1h": vector(({"cluster": "east"}, 1), ({"cluster": "west"}, 1))},
            "several clusters (east, west)",
        ),
    ],
)
def test_what_is_missing_is_named_and_the_rest_goes_on(changed: dict[str, Reply], fault: str) -> None:
    found = read(answers(changed))
    assert fault in "\n".join(found.faults)
    np.testing.assert_array_equal(found.pods.use.cpu_m, np.full((1, 6), 500))


def test_containers_where_they_are_asked_for() -> None:
    asked: list[str] = []

    def answer(question: Question) -> Reply:
        asked.append(question.query)
        if question.path.endswith("query_range") and "by (namespace,pod,container)" in question.query:
            value = 0.5 if "cpu" in question.query else 2**30
            rows = [({**POD, "container": name}, [(t, value) for t in question.columns]) for name in ("app", "proxy")]
            return matrix(*rows)
        return answers()(question)

    found = read(answer, request=HistoryRequest(days=1 / 24, step_s=600, by_container=True))
    assert found.pods.use.names == ("ns/a/app", "ns/a/proxy")
    assert found.pods.workload == ("ns/Deployment/web",) * 2
    assert not any(query.startswith("sum by (namespace,pod) (max by (namespace,pod,container)") for query in asked)


def test_pods_of_one_resource_only_keep_it() -> None:
    found = read(answers({r"avg_over_time\(container_memory.*container!": matrix()}))
    assert found.pods.use.names == ("ns/a",)
    assert np.isnan(found.pods.use.memory_mib).all()


@pytest.mark.parametrize(("skew_s", "said"), [(400.0, "400 s behind"), (-90.0, "90 s ahead of"), (10.0, "")])
def test_the_servers_clock_counts(skew_s: float, said: str) -> None:
    found = read(answers(), now_s=NOW_S + skew_s)
    assert said in "".join(found.faults)
    assert bool(found.faults) == bool(said)
    assert found.pods.use.end_s - 600.0 == NOW_S // 600 * 600


@pytest.mark.parametrize(
    ("instance", "node"),
    [("10.0.0.7:10250", "n7"), ("[fd00::7]:10250", "n8"), ("n9:9100", "n9"), ("n9", "n9")],
)
def test_nodes_by_the_address_that_was_scraped(instance: str, node: str) -> None:
    addresses = vector(({"node": "n7", "internal_ip": "10.0.0.7"}, 1), ({"node": "n8", "internal_ip": "fd00::7"}, 1))

    def answer(question: Question) -> Reply:
        if "kube_node_info" in question.query and "internal_ip" in question.query:
            return addresses
        if question.query.startswith("count(count by ("):
            return vector(({}, 1)) if "(instance)" in question.query else vector()
        if question.path.endswith("query_range") and "(instance)" in question.query:
            return matrix(({"instance": instance}, [(t, 0.5) for t in question.columns]))
        return answers()(question)

    assert read(answer).nodes.names == (node,)


def test_an_empty_store_says_so() -> None:
    found = read(lambda question: vector(({}, NOW_S)) if "time()" in question.query else vector())
    assert found.pods.use.names == ()
    assert (
        found.pods.use.source == "Prometheus has no use of pods under any known name, so all figures are by requests."
    )


def test_columns_before_the_store_began_are_left_out() -> None:
    def answer(question: Question) -> Reply:
        if not question.path.endswith("query_range"):
            return answers()(question)
        labels = POD if "namespace" in question.query else {"node": "n1"}
        return matrix((labels, [(t, 0.5) for t in question.columns if t > NOW_S - 1900]))

    use = read(answer).pods.use
    assert use.steps == 3
    assert not np.isnan(use.cpu_m).any()
    assert "0.0208 of the 0.0417 days asked for are not in the store" in use.source


def test_a_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(Transient):
        read(lambda question: refusal(503, "starting"))


def test_a_large_cluster_has_longer_steps() -> None:
    changed = {r"count\(container_cpu": vector(({}, 50_000))}
    found = read(answers(changed), request=HistoryRequest(days=1 / 24, step_s=60, max_values=500_000))
    assert found.pods.use.step_s == 600.0
    assert "50000 pods: a step of 600 s instead of 60 s" in "\n".join(found.faults)


@pytest.mark.parametrize("settings", [{"days": 0.0}, {"days": 500.0}, {"step_s": 61}])
def test_requests_that_cannot_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        HistoryRequest(**settings)  # type: ignore[arg-type]


def test_a_label_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a Prometheus label's name"):
        layouts.matchers({"a} or up": "x"})


@pytest.mark.parametrize(
    ("kind", "name", "workload"),
    [
        ("ReplicaSet", "web-7d4b9c6f5d", "ns/Deployment/web"),
        ("ReplicaSet", "plain", "ns/ReplicaSet/plain"),
        ("Job", "night-28000000", "ns/CronJob/night"),
        ("Job", "once", "ns/Job/once"),
        ("Job", "known", "ns/Workflow/w"),
        ("StatefulSet", "db", "ns/StatefulSet/db"),
        ("<none>", "<none>", "ns/Pod/p"),
        ("Node", "n1", "ns/Pod/p"),
        ("", "", "ns/Pod/p"),
    ],
)
def test_workloads_by_their_owners(kind: str, name: str, workload: str) -> None:
    assert workload_of("ns", "p", kind, name, {("ns", "Job", "known"): "Workflow/w"}) == workload
