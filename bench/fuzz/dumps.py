"""The reader of assessments' files: whole files with damage, and files of which one member is damaged."""

from __future__ import annotations

import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np

from bench.fuzz.inputs import damaged
from bench.fuzz.reader import Reader
from cotenant.drivers.kube.snapshot.archive import read_archive, write_archive
from cotenant.drivers.kube.snapshot.kinds import BY_OBJECT
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, ObjectCutter, unasked
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.errors import CotenantError
from cotenant.services.assess import columns
from cotenant.services.assess.copying import copied
from cotenant.services.assess.totals import totals
from cotenant.services.assess.what_ifs.altering import altered
from cotenant.services.assess.what_ifs.writing import read_what_ifs

_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
_AMOUNTS = {"cpu": "8", "memory": "16Gi", "pods": "20"}
_OBJECTS: tuple[dict[str, object], ...] = (
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "x"}},
        "status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "uid": "u",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
            ],
        },
        "spec": {"nodeName": "a", "containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    },
)
_CHANGES = ("add=1:4x8Gi load=1.5 overcommit=off", "policy=best-fit load=0.5")


def dump_readers(folder: Path) -> list[Reader]:
    """One that reads the file, and one that works with what was read."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = _whole(folder / "whole.zip")
    path = folder / "fuzzed.zip"

    def read(text: bytes) -> object:
        path.write_bytes(text)
        return read_archive(path)

    def work(text: bytes) -> object:
        path.write_bytes(text)
        snapshot, history = read_archive(path)
        for case in read_what_ifs(_CHANGES):
            changed = altered(snapshot, case, 1)
            copy = copied(changed.snapshot)
            pods = columns.pod_columns(copy)
            use = columns.moment(copy, pods) if history is None else columns.joined(history, pods)
            totals(columns.node_columns(copy), pods, use, ())
        return None

    make = partial(_made, whole)
    return [
        Reader("assessment file", make, read, (CotenantError,), 0.1),
        Reader("assessment of a file", make, work, (CotenantError,), 0.003),
    ]


def _whole(path: Path) -> bytes:
    objects = {}
    for obj in _OBJECTS:
        kind = BY_OBJECT[str(obj["apiVersion"]), str(obj["kind"])]
        line = ObjectCutter(kind).cut(obj)  # type: ignore[arg-type]
        assert line is not None
        objects[kind.key] = [line]
    use = np.full((1, 4), 100.0, np.float32)
    asked = np.full(1, 1000.0, np.float32)
    pods = PodHistory(AssessedHistory(0.0, 300.0, ("shop/p",), use, use), ("a",), ("shop/ReplicaSet/r",), asked, asked)
    write_archive(
        path,
        ClusterSnapshot(1.7e9, objects, unasked({})),
        ClusterHistory(pods, AssessedHistory(0.0, 300.0, ("a",), use, use)),
    )
    return path.read_bytes()


def _made(whole: bytes, rng: Random) -> bytes:
    if rng.random() < 0.3:
        return damaged(whole, rng)
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(whole)) as before, zipfile.ZipFile(out, "w") as after:
        names = before.namelist()
        hit = rng.choice(names)
        for name in names:
            text = before.read(name)
            if name == hit and rng.random() < 0.9:
                text = damaged(text, rng)
            elif name == hit:
                continue
            after.writestr(name, text)
    return out.getvalue()
