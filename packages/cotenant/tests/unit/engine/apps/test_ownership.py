"""A record alone proves nothing: what another could have written into it touches nobody else's objects."""

from __future__ import annotations

from cotenant.engine.apps.ownership import why_not_adopt, why_not_believe, why_not_delete
from cotenant.model.apps.objects import ObjectRef
from cotenant.model.apps.release import ReleaseName
from cotenant.model.json_object import JsonObject

RELEASE = ReleaseName("shop", "web")


def live(**annotations: str) -> JsonObject:
    return {"metadata": {"annotations": annotations}}


OURS = live(**{"cotenant.io/release": "shop/web"})
OTHERS = live(**{"cotenant.io/release": "kube-system/dns"})
KEPT = live(**{"cotenant.io/release": "shop/web", "helm.sh/resource-policy": "keep"})
HELMS = live(**{"meta.helm.sh/release-name": "dns"})


def test_only_what_says_that_it_is_ours_is_deleted() -> None:
    assert not why_not_delete(OURS, RELEASE)
    assert why_not_delete(OTHERS, RELEASE) == "it belongs to the release kube-system/dns"
    assert why_not_delete(live(), RELEASE)
    assert why_not_delete(KEPT, RELEASE) == "it says that it is kept"


def test_what_belongs_to_another_is_not_adopted_whatever_is_asked() -> None:
    assert not why_not_adopt(None, RELEASE, False)
    assert not why_not_adopt(OURS, RELEASE, False)
    assert why_not_adopt(live(), RELEASE, False)
    assert not why_not_adopt(live(), RELEASE, True)
    assert why_not_adopt(OTHERS, RELEASE, True)
    assert why_not_adopt(HELMS, RELEASE, True)


def test_a_record_counts_in_its_namespace_and_elsewhere_with_the_object() -> None:
    mine, role = ObjectRef("", "ConfigMap", "shop", "a"), ObjectRef("rbac", "ClusterRole", "", "admin")
    assert not why_not_believe(mine, None, RELEASE)
    assert not why_not_believe(role, OURS, RELEASE)
    assert why_not_believe(role, None, RELEASE)
    assert why_not_believe(role, live(), RELEASE)
    assert why_not_believe(ObjectRef("", "Secret", "kube-system", "a"), OTHERS, RELEASE)
