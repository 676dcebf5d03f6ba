"""What an uninstallation clears up, and what it leaves to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.fakes.servers.scripted_server import Reply, ScriptedServer, refusal

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import Reason
from cotenant.services.withdrawal import leftovers

GONE = refusal(404, "not found", "NotFound")
DONE = Reply(200, {"kind": "Status", "status": "Success"})
AGENTS = "/apis/apps/v1/namespaces/cotenant-node/daemonsets/cotenant-node"


def pods(*names: str, app: str = "", of_class: str = "", more: str = "") -> Reply:
    items = [
        {
            "metadata": {"namespace": "batch", "name": name, "labels": {"app": app}},
            "spec": {"priorityClassName": of_class} if of_class else {},
        }
        for name in names
    ]
    return Reply(200, {"kind": "PodList", "metadata": {"continue": more}, "items": items})


def run(
    replies: dict[str, list[Reply]], scenario: Callable[[Client, Callable[[str], None]], Awaitable[None]]
) -> tuple[list[tuple[str, str]], list[str]]:
    """What was asked, and what was said."""
    said: list[str] = []

    async def main() -> list[tuple[str, str]]:
        async with ScriptedServer(replies) as server:
            access = Access(server.url, FixedCredential(Credential("")))
            async with Client(access, qps=1000, burst=1000, in_flight=2) as client:
                await scenario(client, said.append)
            assert server.left == 0
            return [(method, path.partition("?")[0]) for method, path in server.asked]

    return asyncio.run(main()), said


def test_agents_are_deleted_and_waited_for() -> None:
    asked, said = run(
        {"DELETE": [DONE], "GET": [pods()]},
        lambda client, say: leftovers.end_agents(client, ("cotenant-node", "cotenant-node"), 0.0, say),
    )
    assert asked == [("DELETE", AGENTS), ("GET", "/api/v1/namespaces/cotenant-node/pods")]
    assert said[-1] == "no agent runs: knobs are as they were before"


def test_an_agent_that_stays_is_named() -> None:
    with pytest.raises(Permanent, match=r"1 of the agents still run after 0 s \(agent-x\): their knobs may be held"):
        run(
            {"DELETE": [GONE], "GET": [pods("agent-x")]},
            lambda client, say: leftovers.end_agents(client, ("cotenant-node", "cotenant-node"), 0.0, say),
        )


def test_priority_classes_stay_while_any_pod_names_them() -> None:
    names = ("koord-batch", "koord-free", "koord-prod")
    asked, said = run(
        {
            "GET": [pods("a", "b", of_class="koord-batch", more="next"), pods("c", of_class="another")],
            "DELETE": [DONE, GONE],
        },
        lambda client, say: leftovers.remove_unused_classes(client, names, say),
    )
    assert [path.rpartition("/")[2] for method, path in asked if method == "DELETE"] == ["koord-free", "koord-prod"]
    assert said == [
        "PriorityClass koord-batch stays: 2 pods name it (batch/a, batch/b)",
        "deleted PriorityClass koord-free",
        "there is no PriorityClass koord-prod",
    ]


def test_what_processes_made_goes_once_they_are_gone() -> None:
    """The pod that clears up does not wait for itself."""
    asked, said = run(
        {"GET": [pods("me", app="cotenant-uninstall")], "DELETE": [DONE, DONE, GONE, DONE]},
        lambda client, say: leftovers.remove_own(
            client, "here", ("l1", "l2"), ("s1",), (("there", "m1"),), "cotenant-uninstall", 0.0, say
        ),
    )
    assert [path.removeprefix("/api") for method, path in asked if method == "DELETE"] == [
        "s/coordination.k8s.io/v1/namespaces/here/leases/l1",
        "s/coordination.k8s.io/v1/namespaces/here/leases/l2",
        "/v1/namespaces/here/secrets/s1",
        "/v1/namespaces/there/configmaps/m1",
    ]
    assert said == ["deleted Lease here/l1", "deleted Lease here/l2", "deleted ConfigMap there/m1"]


def test_processes_that_still_end_are_named() -> None:
    _, said = run(
        {"GET": [pods("manager-1")], "DELETE": [DONE]},
        lambda client, say: leftovers.remove_own(client, "here", ("l1",), (), (), "cotenant-uninstall", 0.0, say),
    )
    assert said[0] == "1 processes still end (manager-1); what they make again stays"


@pytest.mark.parametrize(
    ("ready", "said"),
    [
        (3, "the keeper's folder is gone from 3 nodes"),
        (2, "the keeper's folder stays on 1 of 3 nodes: they did not answer within 0 s"),
    ],
)
def test_nodes_that_do_not_answer_do_not_stop_an_uninstallation(ready: int, said: str) -> None:
    status = {"desiredNumberScheduled": 3, "numberReady": ready, "observedGeneration": 1}
    _, lines = run(
        {"GET": [Reply(200, {"kind": "DaemonSet", "status": status})]},
        lambda client, say: leftovers.wait_for_folders(client, ("cotenant-node", "cotenant-sweep"), 0.0, say),
    )
    assert lines == [said]


def test_a_keepers_folder_goes_unless_knobs_of_it_were_not_restored(tmp_path: Path) -> None:
    folder, said = tmp_path / "cotenant", list[str]()
    leftovers.remove_folder(folder, "boot", said.append)
    file = LeaseFile(folder, "boot")
    (folder / "audit.jsonl").write_text("{}\n")
    lease = KnobLease(
        KnobTarget("kubepods", Knob.CPU_MAX),
        "raw",
        "held",
        Reason("r", "t"),
        LeaseState.HELD,
        0.0,
        5,
        before="max 100000",
    )
    file.keep([lease], durable=True)
    with pytest.raises(Permanent):  # a keeper has it
        leftovers.remove_folder(folder, "boot", said.append)
    file.close()
    with pytest.raises(Permanent, match="original values of 1 knobs that were not restored"):
        leftovers.remove_folder(folder, "boot", said.append)
    leftovers.remove_folder(folder, "the-next-boot", said.append)  # its groups are gone
    assert not folder.exists()
    assert said == ["there is no folder cotenant", "removed the folder cotenant"]


def test_only_a_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="the folder of a keeper"):
        leftovers.remove_folder(tmp_path / "link", "boot", print)
    assert (tmp_path / "elsewhere").is_dir()
