"""The view "Applications" in a real browser: lists, a release's pods, objectives, quotas and cost, and its buttons;
hostile names; both themes and a narrow window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.processes.console_world import HOSTILE, TOKEN, ConsoleWorld
from tests.fakes.processes.kept_objects import KeptObjects
from tests.fakes.processes.shop_cluster import ShopCluster, ShopMachines, deployment_text
from tests.fakes.waiting import becomes

from cotenant.model.apps.objects import RELEASE
from cotenant.model.apps.release import Revision, RevisionState
from cotenant.model.assess.prices import PriceTable, UnitPrices
from cotenant.model.vms.machine import Machine, MachineSize, MachineState
from cotenant.services.apps.records import LABEL, TYPE, encoded

from .conftest import NARROW, Tab
from .test_looks import THEMES, axe, show

PLACES = {  # and what is there once the page is
    "apps": "section + section tbody",
    "apps?release=shop%2Fweb": "[data-headline]",
    "apps?vm=shop%2Fdb": "[data-headline]",
}


def objects_of_shop() -> KeptObjects:
    """A release that a record names: a Deployment of two pods, an objective, a quota; and one that failed."""
    objects = KeptObjects()
    labels = {"app": "web"}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {RELEASE: "shop/web"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
    }
    objects.put(web, updatedReplicas=2, replicas=2, availableReplicas=2)
    maker = {"kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}
    objects.put(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "ownerReferences": [maker]}}
    )
    for k in range(2):
        owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1", "controller": True}
        requests = {"cpu": "500m", "memory": "1Gi"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"web-1-{k}", "uid": f"{k}a1b2c3d-x", "labels": labels, "ownerReferences": [owner]},
            "spec": {
                "nodeName": f"node-{k}",
                "containers": [{"image": "x/web:1", "resources": {"requests": requests}}],
            },
        }
        objects.put(pod, phase="Running")
    objects.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}})
    objects.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    spec = {"service": {"name": "web"}, "target": "99.9"}
    objective = {"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "ServiceObjective", "spec": spec}
    objects.put({**objective, "metadata": {"name": "fast"}}, state="burning")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    objects.put(quota, hard={"pods": "10"}, used={"pods": "2"})
    for name, state, message in (("web", RevisionState.DEPLOYED, ""), ("broken", RevisionState.FAILED, HOSTILE)):
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"cotenant.release.{name}.v1", "namespace": "shop", "labels": {LABEL: name}},
            "type": TYPE,
            "data": {"release": encoded(Revision(1, state, (web,) if name == "web" else (), 1.0, 0.0, message))},
        }
        objects.put(secret)
    return objects


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> ShopCluster:
    size = MachineSize(2, 2048)
    vms = ShopMachines(
        Machine(
            "shop", "db", "u", MachineState.RUNNING, size, "node-1", "i", class_name="prod", pod="virt-launcher-db"
        ),
        Machine("shop", HOSTILE, "v", MachineState.FAILED, size, why=HOSTILE),
    )
    return ShopCluster(folder=tmp_path_factory.mktemp("shop"), objects=objects_of_shop(), vms=vms)


@pytest.fixture(scope="module")
def world(place: ShopCluster) -> Iterator[ConsoleWorld]:
    helm, token = place.folder / "helm", place.folder / "token"
    helm.write_text("#!/bin/sh\necho '[]'\n")  # it has no releases
    helm.chmod(0o755)
    token.write_text(TOKEN)
    prices = PriceTable("EUR", (), UnitPrices(0.1, 0.01, 2.0))
    options = {"place": place, "changes": True, "prices": prices}
    with pytest.MonkeyPatch.context() as environment, ConsoleWorld(token_file=token, options=options) as running:
        environment.setenv("HELM", str(helm))
        status = {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        running.do(lambda: running.api.put("nodes", {"metadata": {"name": "node-0"}, "spec": {}, "status": status}))
        running.wait(lambda: "node-0" in running.process.fleet.nodes)
        yield running


def rows(tab: Tab, heading: str) -> Any:
    return tab.page.locator("section", has=tab.page.locator("h2", has_text=heading)).locator("tbody tr")


def test_from_the_list_to_a_release_that_is_stopped(tab: Tab, world: ConsoleWorld, place: ShopCluster) -> None:
    page = tab.open("apps")
    page.wait_for_selector("h2:has-text('Releases') >> text=2")
    becomes("machines", rows(tab, "Virtual machines").count, 2)
    page.fill("input[type=search]", "web")
    becomes("one release", rows(tab, "Releases").count, 1)
    page.get_by_role("link", name="web", exact=True).click()
    page.wait_for_selector("[data-headline] >> text=deployed")
    becomes("pods", rows(tab, "Pods").count, 2)
    rows(tab, "Pods").filter(has_text="web-0a1b2c3d").locator("a[href='#/node?name=node-0']").wait_for()
    rows(tab, "Objectives").filter(has_text="99.9 %").filter(has_text="burning").wait_for()
    for words in ("0.1200 EUR an hour", "pods 2 of 10"):
        page.wait_for_selector(f"dl >> text={words}")
    page.get_by_role("button", name="Stop", exact=True).click()

    def replicas() -> object:
        return world.do(lambda: place.objects.named("deployments", "web")["spec"]["replicas"])

    assert replicas() == 2
    page.get_by_role("button", name="Stop shop/web?").click()
    becomes("it is stopped", replicas, 0)
    page.wait_for_selector("text=2 pods run")  # the stand-in's pods do not end
    page.keyboard.press("Escape")
    page.wait_for_selector("h2:has-text('Releases')")


def test_a_release_is_installed_from_the_page(tab: Tab, world: ConsoleWorld, place: ShopCluster) -> None:
    page = tab.open("apps")
    page.get_by_text("Install", exact=True).first.click()
    page.get_by_label("Namespace").fill("shop")
    page.get_by_label("Name", exact=True).fill("mail")
    page.get_by_label("Or manifests, YAML").fill("a: [")
    page.get_by_role("button", name="Install", exact=True).click()
    page.get_by_role("button", name="Install shop/mail?").click()
    page.wait_for_selector(".error >> text=manifests")
    page.get_by_label("Or manifests, YAML").fill(deployment_text("mail", 1))
    tab.counts("button.burning", 0)  # what was changed is asked for again
    page.get_by_role("button", name="Install", exact=True).click()
    page.get_by_role("button", name="Install shop/mail?").click()
    page.wait_for_selector("text=install of release shop/mail")
    becomes("the object", lambda: world.do(lambda: place.objects.named("deployments", "mail")["kind"]), "Deployment")


def test_a_machine_is_moved_and_its_change_told(tab: Tab) -> None:
    page = tab.open("apps?vm=shop%2Fdb")
    page.wait_for_selector("[data-headline] >> text=running")
    tab.counts("dl a[href='#/pods?pod=shop%2Fvirt-launcher-db']", 1)
    page.get_by_role("button", name="Migrate", exact=True).click()
    page.get_by_role("button", name="Migrate shop/db?").click()
    page.wait_for_selector("[role=status] >> text=shop/db is running on node-2")
    page.wait_for_selector("text=migrate of machine shop/db is done")
    page.wait_for_selector("dl a[href='#/node?name=node-2']")


def test_a_machine_gets_another_size(tab: Tab) -> None:
    page = tab.open("apps?vm=shop%2Fdb")
    page.wait_for_selector("[data-headline]")
    page.get_by_text("Resize", exact=True).first.click()
    page.get_by_label("Instance type").fill("large")
    page.get_by_label("Or vCPUs").fill("4")
    page.get_by_role("button", name="Resize", exact=True).click()
    page.get_by_role("button", name="Resize shop/db?").click()
    page.wait_for_selector(".error >> text=a name or numbers, not both")
    page.get_by_label("Instance type").fill("")
    page.get_by_role("button", name="Resize", exact=True).click()
    page.get_by_role("button", name="Resize shop/db?").click()
    page.wait_for_selector("text=resize of machine shop/db is done")
    page.wait_for_selector("dl >> text=4 vCPU")


def test_names_are_shown_as_text(tab: Tab) -> None:
    page = tab.open("apps")
    becomes("machines", rows(tab, "Virtual machines").count, 2)
    page.wait_for_selector(f"text={HOSTILE}")
    page.get_by_role("link", name="broken", exact=True).click()
    page.wait_for_selector(".error >> text=onerror")
    tab.counts("img[src=x]", 0)


@pytest.mark.parametrize(("scheme", "rule"), THEMES)
def test_axe_finds_nothing_serious(tab: Tab, scheme: str, rule: str) -> None:
    assert [line for address, shown in PLACES.items() for line in axe(show(tab, address, shown, scheme), rule)] == []


def test_it_fits_a_phone_in_both_languages(tab: Tab) -> None:
    tab.size(NARROW)
    for language in ("English", "中文"):
        if language == "中文":
            tab.page.get_by_role("button", name=language).click()
            tab.page.wait_for_selector("nav >> text=应用")
        for address, shown in PLACES.items():
            tab.open(address).locator(shown).first.wait_for()
            tab.until("document.documentElement.scrollWidth <= innerWidth")
