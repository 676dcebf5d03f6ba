"""Releases that Helm makes: its objects are waited for, its failures rolled back, and its class made before it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TypeVar

import pytest
from tests.fakes.processes.kept_objects import KeptObjects
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.helm.program import ChartRelease, Helm
from cotenant.engine.apps.run import ReleaseEnd
from cotenant.model.apps.release import ReleaseName
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.services.apps import charts
from cotenant.services.apps.carrying import Carrier
from cotenant.services.apps.charts import HelmChart
from cotenant.services.apps.records import ReleaseRecords
from cotenant.services.apps.releases import How

T = TypeVar("T")
NOW = How(0.0)  # what is not ready at once has failed
MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
NEVER = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}}}"


class KeptHelm(Helm):
    """Makes the objects of a chart whose name is its manifest, and keeps revisions; `fails`: the next call does."""

    def __init__(self, objects: KeptObjects) -> None:
        super().__init__("helm", "shop", None, "")
        self.objects = objects
        self.history: list[tuple[str, str]] = []  # manifest, state
        self.said: list[str] = []
        self.fails = ""

    async def _done(self, words: str, chart: str) -> None:
        self.said.append(words)
        state = "failed" if self.fails else "deployed"
        if not self.fails:
            self.history = [(text, "superseded" if was == "deployed" else was) for text, was in self.history]
        self.history.append((chart, state))
        if self.fails:
            why, self.fails = self.fails, ""
            raise Permanent(why)
        for document in charts.documents_of(chart, "chart"):
            self.objects.put(document)

    async def render(self, name: str, chart: str, values: Sequence[str]) -> str:
        return chart

    async def install(self, name: str, chart: str, values: Sequence[str], timeout_s: float) -> None:
        await self._done(f"install {name} {' '.join(values)}".strip(), chart)

    async def upgrade(self, name: str, chart: str, values: Sequence[str], timeout_s: float) -> None:
        await self._done(f"upgrade {name}", chart)

    async def roll_back(self, name: str, revision: int, timeout_s: float) -> None:
        await self._done(f"rollback {name} {revision}", self.history[(revision or len(self.history) - 1) - 1][0])

    async def uninstall(self, name: str, timeout_s: float) -> None:
        self.said.append(f"uninstall {name}")
        self.history = []

    async def manifest(self, name: str) -> str:
        return self.history[-1][0]

    async def releases(self, everywhere: bool = False) -> list[ChartRelease]:
        if not self.history:
            return []
        return [ChartRelease("web", "shop", len(self.history), self.history[-1][1], "web-1.0")]

    async def revisions(self, name: str) -> list[tuple[int, str]]:
        return [(number, state) for number, (_, state) in enumerate(self.history, 1)]


class Shop:
    def __init__(self, class_name: str = "") -> None:
        self.objects = KeptObjects()
        self.helm = KeptHelm(self.objects)
        records = ReleaseRecords(self.objects, "shop")
        self.carrier = Carrier(
            self.objects, records, ReleaseName("shop", "web"), lambda line: None, class_name=class_name
        )

    def run(self, work: Coroutine[object, object, T]) -> T:
        return run_virtually(work)

    def install(self, chart: str, how: How = NOW) -> ReleaseEnd:
        return self.run(charts.install(self.carrier, self.helm, HelmChart(chart, ("--set=a=b",)), how))

    def upgrade(self, chart: str, how: How = NOW) -> ReleaseEnd:
        return self.run(charts.upgrade(self.carrier, self.helm, HelmChart(chart, ()), how))


def test_a_chart_is_ready_when_its_objects_are() -> None:
    shop = Shop()
    assert shop.install(MAP) == ReleaseEnd("")
    assert shop.helm.said == ["install web --set=a=b"]
    assert shop.objects.names("secrets") == []  # Helm has the record
    found = shop.run(charts.documents_of_release(shop.carrier, shop.helm))
    assert [one["metadata"] for one in found] == [{"name": "a", "namespace": "shop"}]
    with pytest.raises(InvalidInput, match="use upgrade"):
        shop.install(MAP)


def test_what_does_not_become_ready_fails_unless_it_is_not_waited_for() -> None:
    shop = Shop()
    assert shop.install(NEVER).failure.startswith("not ready within 0 s")
    assert shop.upgrade(NEVER, How(0.0, waits=False)) == ReleaseEnd("")


def test_a_failed_installation_is_removed_where_that_was_asked_for() -> None:
    for rolls_back, said in ((True, ["install web --set=a=b", "uninstall web"]), (False, ["install web --set=a=b"])):
        shop = Shop()
        finished = shop.install(NEVER, How(0.0, rolls_back=rolls_back))
        assert (finished.is_rolled_back, shop.helm.said) == (rolls_back, said)
    shop = Shop()
    shop.helm.fails = "helm install: no such chart"
    assert shop.install(MAP, How(0.0)).failure == "helm install: no such chart"


def test_a_failed_upgrade_goes_back_to_what_was_deployed() -> None:
    shop = Shop()
    shop.install(MAP)
    finished = shop.upgrade(NEVER, How(0.0, rolls_back=True))
    assert (finished.is_rolled_back, shop.helm.said[-1]) == (True, "rollback web 1")
    assert finished.failure.startswith("not ready")
    assert "rolling back failed" not in finished.failure
    shop.helm.fails = "helm upgrade: refused"
    assert shop.upgrade(MAP) == ReleaseEnd("helm upgrade: refused")
    assert shop.upgrade(NEVER, How(0.0, rolls_back=True)).is_rolled_back
    assert shop.helm.said[-1] == "rollback web 3"  # the last that was deployed, not the one before


def test_a_roll_back_that_fails_too_is_told() -> None:
    shop = Shop()
    shop.install(NEVER)
    finished = shop.upgrade(NEVER, How(0.0, rolls_back=True))
    assert "; rolling back failed too: not ready within 0 s" in finished.failure


def test_a_stopped_chart_is_neither_upgraded_nor_rolled_back() -> None:
    shop = Shop()
    shop.install(NEVER)
    shop.objects.named("deployments", "web")["metadata"]["annotations"] = {"cotenant.io/stopped-from": "1"}
    with pytest.raises(InvalidInput, match="for an upgrade"):
        shop.upgrade(MAP)
    with pytest.raises(InvalidInput, match="for a roll-back"):
        shop.run(charts.roll_back(shop.carrier, shop.helm, 1, NOW))


def test_a_roll_back_by_hand() -> None:
    shop = Shop()
    shop.install(MAP)
    shop.upgrade(MAP)
    assert shop.run(charts.roll_back(shop.carrier, shop.helm, 1, NOW)) == ReleaseEnd("")
    assert shop.helm.said[-1] == "rollback web 1"


def profiles(shop: Shop) -> list[str]:
    return [
        str(profile["spec"]["qosClass"])
        for (plural, _, _), profile in shop.objects.kept.items()
        if plural == "clustercolocationprofiles"
    ]


def test_the_class_of_a_chart_is_made_before_it_and_goes_with_it() -> None:
    shop = Shop("batch")
    shop.install(NEVER, How(0.0, waits=False))
    assert profiles(shop) == ["BE"]
    assert shop.run(shop.carrier.records.history("web"))[0].class_name == "batch"
    assert shop.run(charts.uninstall(shop.carrier, shop.helm, NOW)) == ReleaseEnd("")
    assert (profiles(shop), shop.objects.names("secrets")) == ([], [])


def test_an_upgrade_may_change_the_class_or_end_it() -> None:
    shop = Shop("batch")
    shop.install(NEVER, How(0.0, waits=False))
    for class_name, expected in (("mid", ["LS"]), ("", [])):
        again = Shop(class_name)
        again.objects.kept, again.helm.history = shop.objects.kept, shop.helm.history
        again.upgrade(NEVER, How(0.0, waits=False))
        assert profiles(again) == expected


def test_a_class_is_removed_with_an_installation_that_failed() -> None:
    shop = Shop("batch")
    assert shop.install(NEVER, How(0.0, rolls_back=True)).is_rolled_back
    assert profiles(shop) == []


def test_a_class_that_cannot_be_given_stops_the_chart() -> None:
    shop = Shop("batch")
    made: JsonObject = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
    shop.install(NEVER, How(0.0, waits=False))
    (key,) = (key for key in shop.objects.kept if key[0] == "clustercolocationprofiles")
    foreign = Shop("batch")
    foreign.objects.put({**made, "metadata": {"name": key[2]}})
    with pytest.raises(Permanent, match="belongs to no release"):
        foreign.install(NEVER)
    assert foreign.helm.said == []
