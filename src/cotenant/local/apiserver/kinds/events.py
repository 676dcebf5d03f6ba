"""Events: in the namespace of what they are about.

Source: Kubernetes API reference, Event; an event about a cluster-scoped object lives in `default`.
"""

from __future__ import annotations

from cotenant.local.apiserver.contract import Cause, Manifest
from cotenant.local.apiserver.kinds.behaviour import Behaviour
from cotenant.local.apiserver.verbs_errors import shown


class EventBehaviour(Behaviour):
    """An event, in either API's form."""

    may_create_on_update = True

    def check_create(self, obj: Manifest) -> list[Cause]:
        """The namespaces must agree."""
        field = "involvedObject" if "involvedObject" in obj else "regarding"
        about = obj.get(field) or {}
        said, namespace = about.get("namespace") or "", obj["metadata"].get("namespace") or ""
        if obj.get("eventTime"):  # the newer rule
            agrees = bool(said) or namespace in ("default", "kube-system")
        else:
            agrees = said == namespace or (not said and namespace in ("", "default"))
        if agrees:
            return []
        why = f"Invalid value: {shown(said)}: does not match event.namespace"
        return [Cause("FieldValueInvalid", why, f"{field}.namespace")]
