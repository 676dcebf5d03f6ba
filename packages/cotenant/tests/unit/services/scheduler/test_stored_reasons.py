"""What can be said of a pod without its scheduler."""

from __future__ import annotations

from tests.fakes.seal_keys import keys

from cotenant.model.cluster.annotations import TENANT
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.seal import SETTLED
from cotenant.services.scheduler.stored_reasons import changed_since


def test_what_differs_from_the_statement_of_the_bind_is_named() -> None:
    stated = {SETTLED: keys()[0].statement("u", "a", {QOS_CLASS: "LS"})}
    assert changed_since({QOS_CLASS: "LS", "app": "web"}, stated) == ()
    assert changed_since({QOS_CLASS: "BE"}, {**stated, TENANT: "rich"}) == (
        "cotenant.io/tenant was changed since the pod was bound: none counts, not rich",
        "koordinator.sh/qosClass was changed since the pod was bound: LS counts, not BE",
    )
    assert changed_since({QOS_CLASS: "BE"}, {}) == ()
    assert changed_since({}, {SETTLED: "{ x"}) == ("cotenant.io/settled cannot be read",)
