"""Changes of releases that the user's `helm` makes: Helm keeps their record and runs their hooks, we wait for their
objects with their reasons, and roll back by it.

The profiles of a class are a release of ours of the same name, applied before the chart, so that its first pods have
the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.drivers.helm.program import Helm
from cotenant.engine.apps.run import ReleaseEnd, RunPlan
from cotenant.model.apps.release import deployed
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.services.apps import releases
from cotenant.services.apps.carrying import Carrier
from cotenant.services.apps.classes import profiles_of
from cotenant.services.apps.releases import How
from cotenant.services.apps.sources import documents_of, placed

_QUICK_S = 30.0


@dataclass(frozen=True, slots=True)
class HelmChart:
    """A chart as it is given to helm, with its options (`--values`, `--set`, `--version`)."""

    name: str
    options: Sequence[str]


async def documents_of_release(carrier: Carrier, helm: Helm) -> list[JsonObject]:
    """The objects of Helm's latest revision, where they are."""
    name = carrier.release.name
    return await placed(carrier.objects, documents_of(await helm.manifest(name), f"chart {name}"), carrier.release)


async def install(carrier: Carrier, helm: Helm, chart: HelmChart, how: How) -> ReleaseEnd:
    """Install a chart; a failure is rolled back by removing it."""
    name = carrier.release.name
    if await helm.find(name) is not None:
        raise InvalidInput("NAME", name, "a new name", f"{carrier.release} is there: use upgrade")
    await _classify(carrier, helm, chart)
    try:
        await helm.install(name, chart.name, chart.options, how.timeout_s)
    except Permanent as error:
        finished = ReleaseEnd(str(error))
    else:
        finished = await _waited(carrier, helm, how)
    if finished.failure and how.rolls_back:
        if await helm.find(name) is not None:
            await helm.uninstall(name, how.timeout_s)
        await _forget_classes(carrier)
        return replace(finished, is_rolled_back=True)
    return finished


async def upgrade(carrier: Carrier, helm: Helm, chart: HelmChart, how: How) -> ReleaseEnd:
    """Upgrade to a chart; a failure goes back to the revision that was deployed."""
    name = carrier.release.name
    before = await running(carrier, helm, "an upgrade")
    await _classify(carrier, helm, chart)
    try:
        await helm.upgrade(name, chart.name, chart.options, how.timeout_s)
    except Permanent as error:
        finished = ReleaseEnd(str(error))
    else:
        finished = await _waited(carrier, helm, how)
    if finished.failure and how.rolls_back:
        await helm.roll_back(name, before, how.timeout_s)
        again = await _waited(carrier, helm, how)
        failure = finished.failure + (f"; rolling back failed too: {again.failure}" if again.failure else "")
        return replace(finished, failure=failure, is_rolled_back=True)
    return finished


async def roll_back(carrier: Carrier, helm: Helm, number: int, how: How) -> ReleaseEnd:
    """Back to a revision of Helm's."""
    await running(carrier, helm, "a roll-back")
    await helm.roll_back(carrier.release.name, number, how.timeout_s)
    return await _waited(carrier, helm, how)


async def uninstall(carrier: Carrier, helm: Helm, how: How) -> ReleaseEnd:
    """Remove a chart, and the class that was made for it."""
    await helm.uninstall(carrier.release.name, how.timeout_s)
    await _forget_classes(carrier)
    return ReleaseEnd("")


async def running(carrier: Carrier, helm: Helm, what: str) -> int:
    """The revision that is deployed, of a release whose objects are not stopped. Raises `InvalidInput`."""
    revisions = await helm.revisions(carrier.release.name)
    await releases.refuse_stopped(carrier, tuple(await documents_of_release(carrier, helm)), what)
    return next((number for number, state in reversed(revisions) if state == "deployed"), revisions[-1][0])


async def _waited(carrier: Carrier, helm: Helm, how: How) -> ReleaseEnd:
    if not how.waits:
        return ReleaseEnd("")
    documents = await documents_of_release(carrier, helm)
    watching = replace(carrier, keeps_record=False)
    return await watching.carry(RunPlan(0, tuple(documents), (), True, how.timeout_s))


async def _classify(carrier: Carrier, helm: Helm, chart: HelmChart) -> None:
    """Make the profiles of the class, or remove those of a class that is no longer asked for."""
    if not carrier.class_name:
        await _forget_classes(carrier)
        return
    name = carrier.release.name
    rendered = documents_of(await helm.render(name, chart.name, chart.options), f"chart {name}")
    profiles = await placed(
        carrier.objects, profiles_of(rendered, carrier.release, carrier.class_name), carrier.release
    )
    history = await carrier.records.history(name)
    how = How(_QUICK_S)
    change = releases.install if deployed(history) is None else releases.upgrade
    finished = await change(carrier, profiles, how)
    if finished.failure:
        raise Permanent(f"the class was not given: {finished.failure}: {'; '.join(map(str, finished.obstacles))}")


async def _forget_classes(carrier: Carrier) -> None:
    if await carrier.records.history(carrier.release.name):
        await releases.uninstall(carrier, How(_QUICK_S), False)
