"""Admission of what a pod says that it holds: the scheduler writes it, and nobody else.

A pod's owner can write the annotations that say which CPUs, devices and reservation a pod was given. A write by anybody
else that adds or changes one is refused; the caller knows who writes.
Limits: a Binding's annotations and writes of the status do not pass here: the admission policy of the chart covers
those, and the seal (model/cluster/seal.py) stands without either.
"""

from __future__ import annotations

from cotenant.model.cluster.seal import BY_SCHEDULER
from cotenant.policy.admission.documents import AdmissionRefusal, Document, annotations_of


def check_holdings(pod: Document, old: Document | None) -> list[AdmissionRefusal]:
    """What a writer who is not the scheduler changes of it. `old`: before an update."""
    after, before = annotations_of(pod), {} if old is None else annotations_of(old)
    return [
        AdmissionRefusal(
            "holdings",
            f"the annotation {name} is the scheduler's to write: leave it out",
            f"metadata.annotations.{name}",
        )
        for name in BY_SCHEDULER
        if (after.get(name) or "") != (before.get(name) or "")
    ]
