"""Documents and a small world for runs: objects that the run's instructions make, with a status that a test gives."""

from __future__ import annotations

from cotenant.engine.apps.ownership import why_not_delete
from cotenant.engine.apps.run import (
    Apply,
    DeleteReleased,
    Forget,
    Instruction,
    ReadObjects,
    ReleaseEnd,
    ReleaseRun,
    WriteRevision,
)
from cotenant.model.apps.objects import RELEASE, ObjectRef, ref_of
from cotenant.model.apps.release import ReleaseName
from cotenant.model.json_object import JsonObject

RELEASE_NAME = ReleaseName("shop", "web")


def document(kind: str, name: str, api_version: str = "v1", namespace: str = "shop", **fields: object) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def deployment(name: str, replicas: int = 2) -> JsonObject:
    return document("Deployment", name, "apps/v1", spec={"replicas": replicas})


def config(name: str) -> JsonObject:
    return document("ConfigMap", name)


class World:
    """Objects as a server has them. Deployments named in `broken` never get ready, those in `failing` fail."""

    def __init__(self, broken: frozenset[str] = frozenset(), failing: frozenset[str] = frozenset()) -> None:
        self.objects: dict[ObjectRef, JsonObject] = {}
        self.broken = broken
        self.failing = failing
        self.refused: dict[str, str] = {}  # names that the server refuses to have applied or deleted
        self.said: list[str] = []
        self.records: list[tuple[int, str, tuple[str, ...]]] = []
        self.now_s = 0.0
        self.is_forgotten = False

    def apply(self, made: JsonObject) -> None:
        name = made["metadata"]["name"]
        status: JsonObject = {}
        if made["kind"] == "Deployment":
            wanted = made["spec"]["replicas"]
            ready = 0 if name in self.broken | self.failing else wanted
            status = {"updatedReplicas": wanted, "replicas": wanted, "availableReplicas": ready}
            if name in self.failing:
                reason = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
                status["conditions"] = [reason]
        if made["kind"] == "CustomResourceDefinition":
            status = {"conditions": [{"type": "Established", "status": "True"}]}
        metadata = {**made["metadata"], "annotations": {RELEASE: str(RELEASE_NAME)}}
        self.objects[ref_of(made)] = {**made, "metadata": metadata, "status": status}

    def step(self, run: ReleaseRun) -> Instruction:
        """Carry one instruction out."""
        said = run.next()
        if isinstance(said, WriteRevision):
            self.records.append((said.number, said.state.value, tuple(ref_of(one).name for one in said.documents)))
            run.done()
        elif isinstance(said, Apply):
            name = said.document["metadata"]["name"]
            self.said.append(f"apply {name}")
            if name in self.refused:
                run.refused(self.refused[name])
            else:
                self.apply(said.document)
                run.done()
        elif isinstance(said, ReadObjects):
            self.now_s += 1
            run.looked({ref: self.objects.get(ref) for ref in said.refs}, self.now_s)
        elif isinstance(said, DeleteReleased):
            self.said.append(f"delete {said.ref.name}")
            self._delete(run, said.ref)
        elif isinstance(said, Forget):
            self.is_forgotten = True
            run.done()
        return said

    def _delete(self, run: ReleaseRun, ref: ObjectRef) -> None:
        live = self.objects.get(ref)
        if ref.name in self.refused:
            run.refused(self.refused[ref.name])
        elif live is not None and (why := why_not_delete(live, RELEASE_NAME)):
            run.not_ours(why)
        else:
            self.objects.pop(ref, None)
            run.done()

    def finish(self, run: ReleaseRun, max_steps: int = 500) -> ReleaseEnd:
        for _ in range(max_steps):
            said = self.step(run)
            if isinstance(said, ReleaseEnd):
                return said
        raise AssertionError("the run does not end")

    @property
    def names(self) -> list[str]:
        return sorted(ref.name for ref in self.objects)
