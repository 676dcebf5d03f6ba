"""The commands of `cotenant app` as functions: which of the two ways a release goes, and its result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.helm.program import Helm, find_helm
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Forbidden
from cotenant.drivers.kube.client.objects import Objects, ServedKind
from cotenant.engine.apps.run import ReleaseEnd, RunPlan
from cotenant.model.apps.release import ReleaseName, check_release_name, deployed, possibly_there
from cotenant.model.assess.prices import PriceTable
from cotenant.model.cluster.class_names import check_class
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.services.apps import charts, releases, running
from cotenant.services.apps.carrying import Carrier, Say
from cotenant.services.apps.charts import HelmChart
from cotenant.services.apps.classes import profiles_of
from cotenant.services.apps.records import ReleaseRecords
from cotenant.services.apps.releases import How
from cotenant.services.apps.sources import AppSource, ManifestText, placed, read_source, source_of
from cotenant.services.apps.viewing import KnownRelease, ReleaseView, view

MANAGER = "cotenant-app"
_NAMESPACES = ServedKind("v1", "namespaces", False)
_PROFILES = ("config.koordinator.sh/v1alpha1", "ClusterColocationProfile")


@dataclass(frozen=True, slots=True)
class AppLocation:
    """A cluster and a namespace; empty = the kubeconfig's."""

    kubeconfig: Path | None
    context: str
    namespace: str


@dataclass(frozen=True, slots=True)
class ListedRelease:
    """A line of the list."""

    namespace: str
    name: str
    source: str
    revision: int
    state: str


class Apps:
    """Releases of one cluster, as seen from one namespace."""

    def __init__(self, client: Client, where: AppLocation, say: Say) -> None:
        self.namespace = where.namespace or client.access.namespace or "default"
        self.objects = Objects(client, MANAGER)
        self._where = where
        self._say = say

    def carrier(self, name: str, class_name: str = "") -> Carrier:
        """What changes the release of this name."""
        release = ReleaseName(self.namespace, check_release_name(name))
        records = ReleaseRecords(self.objects, self.namespace)
        return Carrier(self.objects, records, release, self._say, class_name=check_class(class_name))

    def helm(self) -> Helm:
        """The user's helm. Raises `Unsupported` where there is none."""
        return Helm(find_helm(), self.namespace, self._where.kubeconfig, self._where.context)

    async def is_chart(self, name: str) -> bool:
        """Whether the release is Helm's."""
        return bool(find_helm()) and await self.helm().find(name) is not None

    async def install(
        self,
        name: str,
        source: str | ManifestText,
        options: Sequence[str],
        how: How,
        class_name: str,
        creates_namespace: bool,
    ) -> ReleaseEnd:
        """A new release."""
        carrier, form = self.carrier(name, class_name), source_of(source)
        _check_options(form, options)
        if creates_namespace:
            await self._create_namespace()
        await self._check_profiles(class_name)
        if form is AppSource.CHART:
            if not class_name and await carrier.records.history(name):
                raise InvalidInput("NAME", name, "a new name", "a release of manifests has it")
            return await charts.install(carrier, self.helm(), HelmChart(str(source), options), how)
        if await self.is_chart(name):
            raise InvalidInput("NAME", name, "a new name", "a release of Helm has it")
        return await releases.install(carrier, await self._documents(carrier, source, form), how)

    async def upgrade(
        self, name: str, source: str | ManifestText, options: Sequence[str], how: How, class_name: str
    ) -> ReleaseEnd:
        """The next revision of a release."""
        carrier, form = self.carrier(name, class_name), source_of(source)
        _check_options(form, options)
        await self._check_profiles(class_name)
        is_chart = await self.is_chart(name)
        if is_chart != (form is AppSource.CHART):
            raise InvalidInput("SOURCE", str(source), "a chart" if is_chart else "what the release was installed from")
        if is_chart:
            return await charts.upgrade(carrier, self.helm(), HelmChart(str(source), options), how)
        return await releases.upgrade(carrier, await self._documents(carrier, source, form), how)

    async def roll_back(self, name: str, number: int, how: How) -> ReleaseEnd:
        """An earlier revision again."""
        carrier = self.carrier(name)
        if await self.is_chart(name):
            return await charts.roll_back(carrier, self.helm(), number, how)
        return await releases.roll_back(carrier, number, how)

    async def uninstall(self, name: str, how: How, deletes_data: bool) -> ReleaseEnd:
        """Remove a release."""
        carrier = self.carrier(name)
        if await self.is_chart(name):
            return await charts.uninstall(carrier, self.helm(), how)
        return await releases.uninstall(carrier, how, deletes_data)

    async def stop(self, name: str, how: How) -> ReleaseEnd:
        """No pod of it runs."""
        carrier = self.carrier(name)
        documents, known = await self._standing(carrier)
        stopped = await running.stop(carrier, documents, how.waits, how.timeout_s, known.source == "chart")
        return running.finished_of(stopped, how.timeout_s) if how.waits else ReleaseEnd("", stopped.unstopped)

    async def start(self, name: str, how: How) -> ReleaseEnd:
        """As it was before it was stopped."""
        carrier = self.carrier(name)
        documents, known = await self._standing(carrier)
        if not await running.start(carrier, documents, known.source == "chart"):
            raise InvalidInput("NAME", name, "a release that is stopped", "`cotenant app show` has its state")
        if not how.waits:
            return ReleaseEnd("")
        watching = Carrier(carrier.objects, carrier.records, carrier.release, self._say, keeps_record=False)
        return await watching.carry(RunPlan(0, tuple(documents), (), True, how.timeout_s))

    async def show(self, name: str, prices: PriceTable | None) -> ReleaseView:
        """All about one release."""
        carrier = self.carrier(name)
        documents, known = await self._standing(carrier)
        return await view(carrier, documents, known, prices)

    async def every(self, everywhere: bool) -> list[ListedRelease]:
        """The releases, ours and Helm's."""
        records = ReleaseRecords(self.objects, "" if everywhere else self.namespace)
        of_charts = await self.helm().releases(everywhere) if find_helm() else []
        found = [
            ListedRelease(one.namespace, one.name, f"chart {one.chart}", one.revision, one.state) for one in of_charts
        ]
        known = {(one.namespace, one.name) for one in found}
        for release, revision in await records.releases():
            if (release.namespace, release.name) not in known:
                found.append(
                    ListedRelease(release.namespace, release.name, "manifests", revision.number, revision.state.value)
                )
        return sorted(found, key=lambda one: (one.namespace, one.name))

    async def _standing(self, carrier: Carrier) -> tuple[list[JsonObject], KnownRelease]:
        """What a release consists of now, and what is recorded of it."""
        name = carrier.release.name
        history = await carrier.records.history(name)
        last = history[-1] if history else None
        if find_helm():
            chart = await self.helm().find(name)
            if chart is not None:
                documents = await charts.documents_of_release(carrier, self.helm())
                class_name = last.class_name if last is not None else ""
                return documents, KnownRelease("chart", chart.revision, chart.state, chart.chart, class_name)
        if last is None:
            raise InvalidInput("NAME", name, f"a release of namespace {self.namespace}", "`cotenant app list` has them")
        standing = deployed(history)
        documents = list(standing.documents if standing is not None else possibly_there(history))
        return documents, KnownRelease("manifests", last.number, last.state.value, last.message, last.class_name)

    async def _documents(self, carrier: Carrier, source: str | ManifestText, form: AppSource) -> list[JsonObject]:
        found = await read_source(source, form)
        if not found:
            raise InvalidInput("SOURCE", str(source), "at least one object")
        found = [*profiles_of(found, carrier.release, carrier.class_name), *found]
        return await placed(self.objects, found, carrier.release)

    async def _create_namespace(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        try:
            await self.objects.create(_NAMESPACES, "", namespace)
        except AlreadyExists:
            pass
        except Forbidden as error:
            raise Permanent(f"the namespace cannot be made: {error}") from error

    async def _check_profiles(self, class_name: str) -> None:
        if class_name and await self.objects.served(*_PROFILES) is None:
            raise InvalidInput(
                "--class", class_name, "a server with ClusterColocationProfiles", "`cotenant crds` prints them"
            )


def said_of(name: str, done: str, finished: ReleaseEnd) -> list[str]:
    """The lines that tell how a change ended; the last says whether it came about."""
    lines = [f"{ref} stays" for ref in finished.kept] + [str(obstacle) for obstacle in finished.obstacles]
    if not finished.failure:
        return [*lines, f"{name} {done}"]
    lines.append(f"{name}: {finished.failure}")
    return [*lines, f"{name} rolled back"] if finished.is_rolled_back else lines


@asynccontextmanager
async def connected(where: AppLocation, say: Say) -> AsyncIterator[Apps]:
    """The releases of a cluster."""
    access = load_access(where.kubeconfig, where.context)
    async with Client(access, qps=float("inf"), burst=10, in_flight=4, user_agent=MANAGER) as client:
        yield Apps(client, where, say)


def _check_options(form: AppSource, options: Sequence[str]) -> None:
    if options and form is not AppSource.CHART:
        raise InvalidInput("SOURCE", form.value, "a chart", "--values, --set and --version are for charts")
