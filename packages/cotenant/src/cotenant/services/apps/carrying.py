"""Carries out what a run says, and tells what it waits for.

A server that does not answer is asked again until the run's own deadline; what it refuses is told to the run, which
decides. Objects that are waited for are read again each second; a line is said where one stands otherwise than before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from cotenant.drivers.kube.client.errors import Refused
from cotenant.drivers.kube.client.objects import Objects, ServedKind
from cotenant.engine.apps.ownership import why_not_delete
from cotenant.engine.apps.run import (
    Apply,
    DeleteReleased,
    Forget,
    ReadObjects,
    ReleaseEnd,
    ReleaseRun,
    RunPlan,
    WriteRevision,
)
from cotenant.model.apps.objects import RELEASE, ObjectRef, ref_of
from cotenant.model.apps.release import ReleaseName, Revision, RevisionState
from cotenant.model.apps.standing import Obstacle
from cotenant.model.errors import Permanent, Transient
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.apps.records import MAX_KEPT, ReleaseRecords
from cotenant.services.apps.workloads import why_not_ready

LOOK_S = 1.0
_RETRY_S = 30.0
_MARGIN_S = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Carrier:
    """What a change of a release needs. `keeps_record`: the objects are applied, deleted and recorded by us; otherwise
    another program does that, and they are only waited for.
    """

    objects: Objects
    records: ReleaseRecords
    release: ReleaseName
    say: Say
    keeps_record: bool = True
    class_name: str = ""

    async def carry(self, plan: RunPlan) -> ReleaseEnd:
        """Run a plan to its end."""
        run = ReleaseRun(plan, time.monotonic())
        versions = {ref_of(one): str(one["apiVersion"]) for one in (*plan.before, *plan.goal, *(plan.back_to or ()))}
        told: dict[ObjectRef, str] = {}
        while True:
            said = run.next()
            if isinstance(said, ReleaseEnd):
                return said
            try:
                if isinstance(said, ReadObjects):
                    if said.again:
                        await asyncio.sleep(LOOK_S)
                    lives = {ref: await self.live(ref, versions.get(ref, "")) for ref in said.refs}
                    run.looked(lives, time.monotonic())
                    self._tell(run, told)
                    if run.unexplained:  # now: a roll-back removes the pods that show why
                        run.explained(await self._explained(run.unexplained, versions))
                elif isinstance(said, DeleteReleased) and self.keeps_record:
                    why = await _insist(lambda ref=said.ref: self._delete(ref, versions.get(ref, "")))  # type: ignore[misc]
                    if why:
                        run.not_ours(why)
                    else:
                        run.done()
                else:
                    await _insist(lambda said=said: self._act(said, plan.timeout_s))  # type: ignore[misc]
                    run.done()
            except (Refused, Permanent) as error:
                run.refused(str(error))
            except Transient as error:
                if not isinstance(said, ReadObjects):
                    raise
                self.say(f"the server does not answer: {error}")
                await asyncio.sleep(LOOK_S)
                run.looked({}, time.monotonic())

    async def live(self, ref: ObjectRef, api_version: str = "") -> JsonObject | None:
        """An object as it is; None where it is not there, or its kind is not served."""
        place = await self.place(ref, api_version)
        return await self.objects.get(place, ref.namespace, ref.name) if place is not None else None

    async def place(self, ref: ObjectRef, api_version: str = "") -> ServedKind | None:
        """Where its kind is served: in the version of its document, or in the one that the server prefers."""
        found = await self.objects.served(api_version, ref.kind) if api_version else None
        return found or await self.objects.served_in_group(ref.group, ref.kind)

    async def _act(
        self, said: WriteRevision | Apply | DeleteReleased | Forget | ReleaseEnd | ReadObjects, timeout_s: float
    ) -> None:
        if not self.keeps_record:
            return
        if isinstance(said, Apply):
            await self._apply(said.document)
        elif isinstance(said, WriteRevision):
            await self._record(said, timeout_s)
        elif isinstance(said, Forget):
            await self.records.forget(self.release.name, await self.records.history(self.release.name))

    async def _apply(self, document: JsonObject) -> None:
        ref = ref_of(document)
        place = await self.objects.served(document["apiVersion"], ref.kind)
        if place is None:
            raise Permanent(f"the server has no kind {document['apiVersion']} {ref.kind}")
        await self.objects.apply(place, marked(document, self.release))

    async def _delete(self, ref: ObjectRef, api_version: str) -> str:
        """Delete an object; why it was left alone, or an empty text."""
        place = await self.place(ref, api_version)
        live = await self.objects.get(place, ref.namespace, ref.name) if place is not None else None
        if place is None or live is None:
            return ""
        why = why_not_delete(live, self.release)
        if not why:
            await self.objects.delete(place, ref.namespace, ref.name, live["metadata"]["uid"])
            self.say(f"deleted {ref}")
        return why

    async def _record(self, said: WriteRevision, timeout_s: float) -> None:
        history = await self.records.history(self.release.name)
        now_s = time.time()
        known = next((one for one in history if one.number == said.number), None)
        revision = Revision(
            said.number,
            said.state,
            said.documents,
            known.at_s if known else now_s,
            now_s + timeout_s + _MARGIN_S if said.state is RevisionState.PENDING else 0.0,
            said.message,
            self.class_name,
        )
        if known is not None and known.state is RevisionState.DEPLOYED and said.state is RevisionState.PENDING:
            raise Permanent(f"another command is changing the release {self.release}")
        await self.records.write(self.release.name, revision, is_new=known is None)
        if said.state is not RevisionState.DEPLOYED:
            return
        for one in history:
            if one.number != said.number and one.state is RevisionState.DEPLOYED:
                await self.records.write(self.release.name, replace(one, state=RevisionState.SUPERSEDED), False)
        old = [one for one in history if one.number != said.number][:-MAX_KEPT]
        await self.records.forget(self.release.name, old)

    def _tell(self, run: ReleaseRun, told: dict[ObjectRef, str]) -> None:
        for ref, standing in run.standings.items():
            line = f"{ref} {standing} ready"
            if told.get(ref) != line and (standing.wanted > 1 or not standing.is_ready or ref in told):
                told[ref] = line
                self.say(line)

    async def _explained(self, obstacles: tuple[Obstacle, ...], versions: dict[ObjectRef, str]) -> tuple[Obstacle, ...]:
        """With the reasons that pods have, as far as they can be read."""
        found = []
        for one in obstacles:
            try:
                live = await self.live(one.ref, versions.get(one.ref, ""))
                reasons = await why_not_ready(self.objects, live) if live is not None else []
            except (Refused, Transient):
                reasons = []
            found.append(replace(one, why="; ".join((one.why, *reasons))))
        return tuple(found)


def marked(document: JsonMapping, release: ReleaseName) -> JsonObject:
    """The document, saying whose it is."""
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), RELEASE: str(release)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


async def _insist(call: Callable[[], Awaitable[str | None]]) -> str:
    """Call again while the server does not answer, half a minute."""
    until = time.monotonic() + _RETRY_S
    while True:
        try:
            return await call() or ""
        except Transient as error:
            if time.monotonic() >= until:
                raise Permanent(str(error)) from error
            await asyncio.sleep(min(5.0, max(0.1, error.retry_after_s)))
