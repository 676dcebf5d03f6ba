"""Buttons of the view "Applications": where they are switched on, whose they are, and what no other site can press."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.processes.shop_cluster import ShopCluster, ShopMachines, deployment_text

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import InvalidInput
from cotenant.model.vms.machine import Machine, MachineSize, MachineState
from cotenant.services.changes.book import ChangeBook, ChangeReport
from cotenant.services.changes.machines import Machines
from cotenant.services.changes.releases import GivenApplication, Releases, how_of
from cotenant.services.console.access import Right
from cotenant.services.console.applications.answers import KEPT_S, ApplicationAnswers
from cotenant.services.console.applications.changing import RIGHTS_BY_VERB, Changing
from cotenant.services.console.asker import Asker

JSON = {"content-type": "application/json", "sec-fetch-site": "same-origin"}
DB = Machine("shop", "db", "u", MachineState.RUNNING, MachineSize(2, 2048), "node-1", "i")


@pytest.fixture(autouse=True)
def without_helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HELM", raising=False)


class View:
    """One console's view, in a cluster with a machine; `lacks`: what a viewer's token may not do."""

    def __init__(self, folder: Path, machines: ShopMachines | None = None, *, is_on: bool = True) -> None:
        self.place = ShopCluster(folder=folder, vms=machines or ShopMachines(DB))
        self.book, self.lacks, self.now_s = ChangeBook(), set[Right](), 0.0
        self.releases, self.machines = Releases(self.place, self.book), Machines(self.place, self.book)
        self.answers = ApplicationAnswers(
            self.releases, self.machines, self.book, may_change=is_on, now=lambda: self.now_s
        )
        self.changing = Changing(self.releases, self.machines) if is_on else Changing()

    async def post(self, path: str, body: object = None, **headers: str) -> HttpAnswer | None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        messages = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def has(right: Right) -> bool:
            return right not in self.lacks

        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in (headers or JSON).items()]
        scope = {"type": "http", "method": "POST", "path": f"/api/{path}", "headers": given}
        return await self.changing.answer(scope, receive, Asker("alice", has))

    async def done(self, answer: HttpAnswer | None) -> ChangeReport:
        assert answer is not None
        assert answer.status == 202, answer.body
        name = json.loads(answer.body)["id"]
        report = await self.book.report(name)
        while not report.is_done:
            report = await self.book.report(name, start=len(report.lines), wait_s=5.0)
        found = await self.answers.changes([name], {})
        assert isinstance(found, ChangeReport)
        return found


def played(view: View, case: Callable[[View], Any]) -> None:
    async def play() -> None:
        await case(view)
        await view.book.close()

    asyncio.run(play())


def test_a_release_and_a_machine_are_changed_and_followed(tmp_path: Path) -> None:
    async def case(view: View) -> None:
        given = GivenApplication(deployment_text("web", 2))
        name = view.releases.install("shop", "web", given, how_of(0.01))
        while not (await view.book.report(name)).is_done:
            await asyncio.sleep(0)
        stopped = await view.done(await view.post("releases/shop/web", {"verb": "stop"}))
        assert (stopped.failure, stopped.lines[-1], stopped.what) == ("", "web stopped", "stop of release shop/web")
        page: Any = await view.answers.releases(["shop", "web"], {})
        assert (page["mayChange"], page["release"].objects[0].is_stopped) == (True, True)
        moved = await view.done(await view.post("vms/shop/db", {"verb": "migrate"}))
        assert moved.lines == ("shop/db is running on node-2",)
        sized = await view.done(await view.post("vms/shop/db", {"verb": "resize", "vcpus": 4, "memory_mib": 4096}))
        assert (sized.failure, (await view.machines.show("shop", "db")).size) == ("", MachineSize(4, 4096))
        same = await view.done(await view.post("vms/shop/db", {"verb": "resize"}))
        assert "size: none: expected a flavor, or vCPUs, memory or both" in same.failure
        gone = await view.done(await view.post("releases/shop/web", {"verb": "uninstall"}))
        assert (gone.failure, gone.what) == ("", "uninstall of release shop/web")
        assert (await view.releases.every("shop")) == []

    played(View(tmp_path), case)


def test_what_is_switched_off_changes_nothing_and_is_shown(tmp_path: Path) -> None:
    async def case(view: View) -> None:
        answer = await view.post("vms/shop/db", {"verb": "stop"})
        assert answer is not None
        assert (answer.status, b"cotenant console --changes" in answer.body) == (403, True)
        found: Any = await view.answers.vms([], {})
        assert (found["mayChange"], found["machines"]) == (False, [DB])
        assert view.changing.takes("POST", "/api/vms/shop/db")
        assert not view.changing.takes("GET", "/api/vms")
        assert not view.changing.takes("POST", "/api/pods/shop/db")

    played(View(tmp_path, is_on=False), case)


@pytest.mark.parametrize(("section", "verb"), RIGHTS_BY_VERB, ids=" ".join)
def test_each_verb_needs_its_rights(section: str, verb: str, tmp_path: Path) -> None:
    async def case(view: View) -> None:
        for right in RIGHTS_BY_VERB[section, verb]:
            view.lacks = {right}
            answer = await view.post(f"{section}/shop/db", {"verb": verb})
            assert answer is not None
            assert answer.status == 403
            assert f"your token may not {right.words}".encode() in answer.body

    played(View(tmp_path), case)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "said"),
    [
        ("vms/shop/db", {"verb": "stop"}, {**JSON, "sec-fetch-site": "cross-site"}, 403, "another site"),
        ("vms/shop/db", {"verb": "stop"}, {"content-type": "text/plain"}, 415, "application/json"),
        ("vms/shop/db", {"verb": "burn"}, JSON, 400, "burn: expected one of"),
        ("vms/shop/db", {"verb": "resize", "vcpus": 5000}, JSON, 400, "up to 4096 vCPUs"),
        ("vms/shop/db", {"verb": "resize", "memory_mib": -1}, JSON, 400, "and MiB"),
        ("vms/shop/db", {"verb": "resize", "vcpus": "4"}, JSON, 400, "vcpus"),
        ("vms/shop/db", b"{", JSON, 400, "body"),
        ("vms/shop/db", {"verb": "stop", "more": 1}, JSON, 400, "more"),
        ("vms/shop", {"verb": "stop"}, JSON, 404, "no such page"),
        ("releases/a%2Fb/x", {"verb": "stop"}, JSON, 400, "namespace"),
        ("releases/shop/-x", {"verb": "stop"}, JSON, 400, "NAME"),
    ],
)
def test_what_is_wrong_is_named(
    path: str, body: object, headers: dict[str, str], status: int, said: str, tmp_path: Path
) -> None:
    async def case(view: View) -> None:
        answer = await view.post(path, body, **headers)
        assert answer is not None
        assert (answer.status, said in answer.body.decode()) == (status, True), answer.body

    played(View(tmp_path), case)


def test_two_changes_of_one_machine_do_not_meet(tmp_path: Path) -> None:
    async def case(view: View) -> None:
        first = await view.post("vms/shop/db", {"verb": "stop"})
        second = await view.post("vms/shop/db", {"verb": "restart"})
        assert second is not None
        assert (second.status, b"is being changed" in second.body) == (409, True)
        await view.done(first)

    played(View(tmp_path), case)


def test_an_answer_serves_all_viewers_for_a_while(tmp_path: Path) -> None:
    async def case(view: View) -> None:
        first: Any = await view.answers.vms([], {})
        view.place.vms.by_name.clear()
        assert await view.answers.vms([], {}) is first
        view.now_s = KEPT_S
        assert (await view.answers.vms([], {}))["machines"] == []  # type: ignore[index]

    played(View(tmp_path), case)


def test_a_cluster_without_kubevirt_says_so(tmp_path: Path) -> None:
    async def case(view: View) -> None:
        found: Any = await view.answers.vms([], {})
        assert (found["machines"], "a cluster with KubeVirt" in found["lacks"]) == ([], True)

    played(View(tmp_path, ShopMachines(lacks="a cluster with KubeVirt")), case)


def test_there_are_no_other_pages(tmp_path: Path) -> None:
    async def case(view: View) -> None:
        for ask, names in ((view.answers.releases, ["shop"]), (view.answers.vms, ["x"]), (view.answers.changes, [])):
            with pytest.raises(NotFound):
                await ask(names, {})
        with pytest.raises(NotFound, match="a release of namespace shop"):
            await view.answers.releases(["shop", "nothing"], {})
        for query in ({"start": "x"}, {"start": "0"}):
            with pytest.raises(InvalidInput):
                await view.answers.changes(["unknown"], query)

    played(View(tmp_path), case)
