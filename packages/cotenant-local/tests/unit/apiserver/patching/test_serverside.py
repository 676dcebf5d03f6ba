"""Server-side apply: field ownership and conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.document import copied
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.patching import apply, track
from cotenant_local.apiserver.schema.builtin import builtin_schema

SCHEMA = builtin_schema("apps", "v1", "Deployment")
NOW, LATER = 1_700_000_000, 1_800_000_000


def deployment(**spec: Any) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}, "spec": spec}


def containers(*names: str, **extra: Any) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": name, "image": "i", **extra} for name in names]}}}


def applied(
    live: Manifest | None, config: Manifest, manager: str = "a", *, force: bool = False, now: int = NOW
) -> Manifest:
    return apply(copied(live) if live else None, config, SCHEMA, manager, force, "apps/v1", now)


def entry(obj: Manifest, manager: str) -> Manifest:
    return next(element for element in obj["metadata"]["managedFields"] if element["manager"] == manager)


def managers(obj: Manifest) -> list[str]:
    return [entry["manager"] for entry in obj["metadata"].get("managedFields", [])]


def test_creating_by_apply_records_leaves_and_elements() -> None:
    made = applied(None, deployment(replicas=2, **containers("web")))
    assert entry(made, "a") == {
        "manager": "a",
        "operation": "Apply",
        "apiVersion": "apps/v1",
        "time": "2023-11-14T22:13:20Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:spec": {
                "f:replicas": {},
                "f:template": {
                    "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}}}}
                },
            }
        },
    }


def test_applying_again_changes_nothing_including_the_time() -> None:
    made = applied(None, deployment(replicas=2, **containers("web")))
    assert applied(made, deployment(replicas=2, **containers("web")), now=LATER) == made


def test_a_conflict_names_the_manager_and_the_field() -> None:
    made = deployment(replicas=1, **containers("web"))
    track(None, made, SCHEMA, "kubectl-client-side-apply", "Update", NOW)
    with pytest.raises(ApiError) as refused:
        applied(made, deployment(replicas=3))
    assert refused.value.code == 409
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )
    (cause,) = refused.value.causes
    assert (cause.reason, cause.field) == ("FieldManagerConflict", ".spec.replicas")
    assert cause.message == 'conflict with "kubectl-client-side-apply" using apps/v1'


def test_several_conflicts_are_listed_by_manager() -> None:
    made = applied(None, deployment(replicas=1, paused=True, **containers("web")))
    with pytest.raises(ApiError) as refused:
        applied(made, deployment(replicas=3, **containers("web", image="other")), "b")
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .spec.replicas\n'
        '- .spec.template.spec.containers[name="web"].image'
    )


def test_force_moves_ownership_of_the_field() -> None:
    made = applied(None, deployment(replicas=1, paused=True))
    forced = applied(made, deployment(replicas=3), "b", force=True)
    assert forced["spec"] == {"replicas": 3, "paused": True}
    assert entry(forced, "a")["fieldsV1"] == {"f:spec": {"f:paused": {}}}
    assert entry(forced, "b")["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_an_equal_value_is_co_owned_and_kept_when_one_owner_drops_it() -> None:
    made = applied(None, deployment(replicas=1, paused=True))
    shared = applied(made, deployment(replicas=1), "b")
    assert managers(shared) == ["a", "b"]
    left = applied(shared, deployment(paused=True))
    assert left["spec"] == {"replicas": 1, "paused": True}
    alone = applied(left, deployment(paused=True), "b", force=True)
    assert alone["spec"] == {"paused": True}


def test_fields_no_longer_stated_and_not_co_owned_are_removed() -> None:
    made = applied(None, deployment(replicas=1, **containers("web", "side")))
    made["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always"  # a default, owned by no manager
    less = applied(made, deployment(**containers("web")))
    assert less["spec"] == deployment(**containers("web"))["spec"]


def test_the_result_shares_nothing_with_the_configuration() -> None:
    config = deployment(replicas=1, **containers("web"))
    before = repr(config)
    made = applied(None, config)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "changed"
    other = applied(made, config, force=True)
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "changed again"
    assert repr(config) == before


def test_an_untracked_object_is_attributed_to_before_first_apply() -> None:
    bare = deployment(replicas=1)
    with pytest.raises(ApiError, match="before-first-apply"):
        applied(bare, deployment(replicas=2))
    assert managers(applied(bare, deployment(replicas=1))) == ["a", "before-first-apply"]


def test_managed_fields_in_the_configuration_are_refused() -> None:
    config = deployment(replicas=1)
    config["metadata"]["managedFields"] = [{"manager": "x"}]
    with pytest.raises(ApiError, match=r"metadata\.managedFields must be nil"):
        applied(None, config)


def test_unknown_fields_and_another_version_are_refused() -> None:
    with pytest.raises(ApiError, match=r"\.spec\.replica: field not declared in schema"):
        applied(None, deployment(replica=1))
    with pytest.raises(ApiError, match="Incorrect version specified in apply patch"):
        applied(None, {**deployment(), "apiVersion": "v1"})


def test_list_elements_without_key_or_duplicated_are_refused() -> None:
    with pytest.raises(ApiError, match='omits key field "name"'):
        applied(None, deployment(template={"spec": {"containers": [{"image": "i"}]}}))
    with pytest.raises(ApiError, match="duplicate entries"):
        applied(None, deployment(**containers("web", "web")))


def test_yaml_is_read() -> None:
    body = b"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 2\n"
    made = apply(None, body, SCHEMA, "a", False, "apps/v1", NOW)
    assert made["spec"] == {"replicas": 2}


def test_a_missing_field_manager_is_refused() -> None:
    with pytest.raises(ApiError, match="is required for apply patch"):
        applied(None, deployment(), "")
