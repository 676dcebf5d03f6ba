"""Kinds that charts bring, on every API server: defaults, rules, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest

BATCH = "/apis/batch/v1/namespaces/{}/cronjobs"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/{}/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
CONTAINER = {"name": "c", "image": "registry.example/app:1"}


def cron_job(**spec: Any) -> dict[str, Any]:
    pod = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    return {
        "metadata": {"name": "x"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod}}, **spec},
    }


def ingress(*paths: dict[str, Any], **spec: Any) -> dict[str, Any]:
    rules = [{"host": "example.org", "http": {"paths": list(paths)}}] if paths else []
    return {"metadata": {"name": "x"}, "spec": {"rules": rules, **spec}}


def path(kind: str | None = "Prefix", text: str | None = "/", **port: Any) -> dict[str, Any]:
    service = {"name": "web", "port": port or {"number": 80}}
    found: dict[str, Any] = {"backend": {"service": service}}
    if kind is not None:
        found["pathType"] = kind
    if text is not None:
        found["path"] = text
    return found


def without_names(obj: Any) -> Any:
    """An object without what each server makes up."""
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "generation", "annotations")}
    return {**obj, "metadata": metadata}


def test_a_cron_job_has_its_defaults(kube: Any, namespace: str) -> None:
    stored = without_names(kube.ok("POST", BATCH.format(namespace), cron_job()))
    pod = stored["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (pod["dnsPolicy"], pod["schedulerName"]) == ("ClusterFirst", "default-scheduler")
    del stored["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert stored == {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "x", "generation": 1},
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {}, "spec": {"template": {"metadata": {}}}},
        },
        "status": {},
    }


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ({"schedule": "* * * *"}, "spec.schedule", "expected exactly 5 fields, found 4: [* * * *]"),
        ({"schedule": "61 * * * *"}, "spec.schedule", "end of range (61) above maximum (59): 61"),
        ({"schedule": "a * * * *"}, "spec.schedule", "failed to parse int from a"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule", "cannot use TZ or CRON_TZ in schedule"),
        ({"schedule": ""}, "spec.schedule", "Required value"),
        ({"timeZone": "Mars/Base"}, "spec.timeZone", "unknown time zone Mars/Base"),
        ({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy", 'supported values: "Allow", "Forbid", "Replace"'),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds", "must be greater than or equal to 0"),
    ],
)
def test_a_cron_job_that_cannot_run_is_refused(
    kube: Any, namespace: str, spec: dict[str, Any], field: str, why: str
) -> None:
    refused = kube.request("POST", BATCH.format(namespace), cron_job(**spec))
    assert refused.code == 422
    causes = {cause["field"]: cause["message"] for cause in refused.json["details"]["causes"]}
    assert why in causes[field]


def test_a_cron_job_s_pods_do_not_always_restart(kube: Any, namespace: str) -> None:
    pod = {"spec": {"containers": [CONTAINER]}}
    refused = kube.request("POST", BATCH.format(namespace), cron_job(jobTemplate={"spec": {"template": pod}}))
    field = "spec.jobTemplate.spec.template.spec.restartPolicy"
    assert [(one["field"], one["message"]) for one in refused.json["details"]["causes"]] == [
        (field, 'Required value: valid values: "OnFailure", "Never"')
    ]


def test_an_ingress_is_stored(kube: Any, namespace: str) -> None:
    stored = without_names(kube.ok("POST", INGRESSES.format(namespace), ingress(path(), ingressClassName="none")))
    assert stored["status"] == {"loadBalancer": {}}
    assert stored["metadata"] == {"name": "x", "generation": 1}
    assert stored["spec"]["ingressClassName"] == "none"


@pytest.mark.parametrize(
    ("given", "field", "why"),
    [
        (ingress(), "spec", "either `defaultBackend` or `rules` must be specified"),
        (
            ingress(path(kind=None)),
            "spec.rules[0].http.paths[0].pathType",
            "Required value: pathType must be specified",
        ),
        (ingress(path(text="x")), "spec.rules[0].http.paths[0].path", "must be an absolute path"),
        (
            ingress(path(name="", number=0)),
            "spec.rules[0].http.paths[0].backend",
            "port name or number is required",
        ),
        (ingress(path(kind="Glob")), "spec.rules[0].http.paths[0].pathType", "supported values:"),
    ],
)
def test_an_ingress_that_leads_nowhere_is_refused(
    kube: Any, namespace: str, given: dict[str, Any], field: str, why: str
) -> None:
    refused = kube.request("POST", INGRESSES.format(namespace), given)
    assert refused.code == 422
    causes = {cause["field"]: cause["message"] for cause in refused.json["details"]["causes"]}
    assert why in causes[field]


def test_a_default_class_is_named_and_its_controller_stays(kube: Any, namespace: str) -> None:
    name = f"class-{namespace}"
    metadata = {"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    made = {"metadata": metadata, "spec": {"controller": "example.org/x"}}
    assert kube.request("POST", CLASSES, {"metadata": {"name": f"{name}-2"}, "spec": {}}).code == 422
    stored = kube.ok("POST", CLASSES, made)
    try:
        assert stored["metadata"]["generation"] == 1
        one = kube.ok("POST", INGRESSES.format(namespace), ingress(path()))
        assert one["spec"]["ingressClassName"] == name
        stored["spec"]["controller"] = "example.org/y"
        assert "immutable" in kube.request("PUT", f"{CLASSES}/{name}", stored).message
    finally:
        kube.request("DELETE", f"{CLASSES}/{name}")


RANGES = "/api/v1/namespaces/{}/limitranges"
RANGE = {
    "metadata": {"name": "bounds"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "max": {"cpu": "2", "memory": "1Gi"},
                "min": {"cpu": "50m"},
                "default": {"cpu": "500m"},
                "maxLimitRequestRatio": {"cpu": "10"},
            },
            {"type": "Pod", "max": {"cpu": "3"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}},
        ]
    },
}


def bounded_pod(name: str, *resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{i}", "image": "registry.example/app:1", "resources": one} for i, one in enumerate(resources)
    ]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def test_a_limit_range_has_its_defaults_and_gives_them_to_containers(kube: Any, namespace: str, pods: str) -> None:
    limits = kube.ok("POST", RANGES.format(namespace), RANGE)["spec"]["limits"]
    assert limits[0]["default"] == limits[0]["defaultRequest"] == {"cpu": "500m", "memory": "1Gi"}
    assert limits[1] == {"type": "Pod", "max": {"cpu": "3"}}
    made = kube.ok("POST", pods, bounded_pod("x", {}, {"requests": {"cpu": "100m"}}))
    first, second = (one["resources"] for one in made["spec"]["containers"])
    assert first == {"requests": limits[0]["default"], "limits": limits[0]["default"]}
    assert second == {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "500m", "memory": "1Gi"}}
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container c0; cpu, memory limit "
        "for container c0; memory request for container c1; cpu, memory limit for container c1"
    }
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        (
            [{"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}],
            'pods "x" is forbidden: maximum cpu usage per Container is 2, but limit is 3',
        ),
        (
            [{"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "2Gi"}}],
            "maximum memory usage per Container",
        ),
        (
            [{"requests": {"cpu": "10m"}, "limits": {"cpu": "1", "memory": "2Gi"}}],
            "[minimum cpu usage per Container is 50m, but request is 10m, maximum memory usage per Container is 1Gi, "
            "but limit is 2Gi, cpu max limit to request ratio per Container is 10, but provided ratio is 100.000000]",
        ),
        ([{"limits": {"cpu": "1600m"}}] * 2, "maximum cpu usage per Pod is 3, but limit is 3200m"),
    ],
)
def test_a_pod_out_of_bounds_is_refused(
    kube: Any, namespace: str, pods: str, resources: list[dict[str, Any]], why: str
) -> None:
    kube.ok("POST", RANGES.format(namespace), RANGE)
    refused = kube.request("POST", pods, bounded_pod("x", *resources))
    assert refused.code == 403
    assert why in refused.message


def test_a_claim_out_of_bounds_is_refused(kube: Any, namespace: str) -> None:
    kube.ok("POST", RANGES.format(namespace), RANGE)
    resources = {"requests": {"storage": "20Gi"}}
    claim = {"metadata": {"name": "x"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}
    refused = kube.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    assert refused.code == 403
    assert refused.message == (
        'persistentvolumeclaims "x" is forbidden: maximum storage usage per PersistentVolumeClaim is 10Gi, but request '
        "is 20Gi"
    )


def test_a_limit_range_that_contradicts_itself_is_refused(kube: Any, namespace: str) -> None:
    limits = [
        {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}, "min": {"cpu": "3"}},
        {"type": "Container"},
        {"type": "Pod", "default": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim"},
    ]
    refused = kube.request("POST", RANGES.format(namespace), {"metadata": {"name": "x"}, "spec": {"limits": limits}})
    assert [(one["field"], one["message"]) for one in refused.json["details"]["causes"]] == [
        ("spec.limits[0].min[cpu]", 'Invalid value: "3": min value 3 is greater than max value 1'),
        (
            "spec.limits[0].defaultRequest[cpu]",
            'Invalid value: "2": min value 3 is greater than default request value 2',
        ),
        (
            "spec.limits[0].defaultRequest[cpu]",
            'Invalid value: "2": default request value 2 is greater than max value 1',
        ),
        ("spec.limits[0].default[cpu]", 'Invalid value: "3": min value 3 is greater than default value 2'),
        ("spec.limits[0].default[cpu]", 'Invalid value: "1": default value 2 is greater than max value 1'),
        ("spec.limits[1].type", 'Duplicate value: "Container"'),
        ("spec.limits[2].default", "Forbidden: may not be specified when `type` is 'Pod'"),
        (
            "spec.limits[3].limits",
            "Required value: either minimum or maximum storage value is required, but neither was provided",
        ),
    ]


QUOTAS = "/api/v1/namespaces/{}/resourcequotas"
HARD = {"pods": "2", "requests.cpu": "1", "limits.memory": "3Gi", "count/configmaps": "5", "services": "1"}
ASKS = {"requests": {"cpu": "900m"}, "limits": {"memory": "512Mi", "cpu": "2"}}


@pytest.fixture
def quota(kube: Any, namespace: str) -> str:
    """A quota that a controller has seen: the local server has one, for the real one its status is written here."""
    path = QUOTAS.format(namespace)
    kube.ok("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": HARD}})
    if not kube.is_local:
        status = {"hard": HARD, "used": dict.fromkeys(HARD, "0")}
        kube.ok("PATCH", f"{path}/q/status", {"status": status}, content_type="application/merge-patch+json")
        kube.eventually(f"{path}/q", lambda found: bool(found["status"].get("used")))
    return f"{path}/q"


def test_a_quota_is_stored_as_it_is_written(kube: Any, namespace: str) -> None:
    stored = kube.ok("POST", QUOTAS.format(namespace), {"metadata": {"name": "q"}, "spec": {"hard": HARD}})
    assert (stored["spec"], stored["status"]) == ({"hard": HARD}, {})
    assert "generation" not in stored["metadata"]
    wrong = {"metadata": {"name": "x"}, "spec": {"hard": {"pods": "-1"}}}
    assert "must be greater than or equal to 0" in kube.request("POST", QUOTAS.format(namespace), wrong).message


def test_what_exceeds_a_quota_is_refused_with_what_is_used(kube: Any, quota: str, pods: str) -> None:
    refused = kube.request("POST", pods, bounded_pod("a", {"requests": {"cpu": "1"}}))
    assert refused.message == 'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c0'
    kube.ok("POST", pods, bounded_pod("b", ASKS))
    refused = kube.request("POST", pods, bounded_pod("c", ASKS))
    assert refused.code == 403
    assert refused.message == (
        'pods "c" is forbidden: exceeded quota: q, requested: requests.cpu=900m, used: requests.cpu=900m, limited: '
        "requests.cpu=1"
    )
    small = {"requests": {"cpu": "100m"}, "limits": {"memory": "3Gi"}}
    assert (
        "requested: limits.memory=3Gi, used: limits.memory=512Mi"
        in kube.request("POST", pods, bounded_pod("d", small)).message
    )
    kube.ok("POST", pods, bounded_pod("e", {"requests": {"cpu": "50m"}, "limits": {"memory": "1Mi"}}))
    tiny = {"requests": {"cpu": "1m"}, "limits": {"memory": "1Mi"}}
    assert (
        "requested: pods=1, used: pods=2, limited: pods=2" in kube.request("POST", pods, bounded_pod("f", tiny)).message
    )


def test_services_are_counted_too(kube: Any, quota: str, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    kube.ok("POST", path, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
    refused = kube.request("POST", path, {"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}})
    assert refused.message == (
        'services "b" is forbidden: exceeded quota: q, requested: services=1, used: services=1, limited: services=1'
    )


SCALERS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"


def scaler(*metrics: dict[str, Any], **spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    given = {"scaleTargetRef": target, "maxReplicas": 5, **spec}
    return {"metadata": {"name": "web"}, "spec": {**given, "metrics": list(metrics)} if metrics else given}


def of_cpu(kind: str = "Utilization", name: str = "cpu", **target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": {"type": kind, **target}}}


def test_an_autoscaler_has_its_defaults(kube: Any, namespace: str) -> None:
    stored = without_names(kube.ok("POST", SCALERS.format(namespace), scaler()))
    assert stored == {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {**scaler(of_cpu(averageUtilization=80))["spec"], "minReplicas": 1},
        "status": {"currentMetrics": None, "desiredReplicas": 0},
    }
    slow = {"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {"selectPolicy": "Disabled"}}
    made = scaler(behavior=slow)
    made["metadata"]["name"] = "slow"
    full = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert kube.ok("POST", SCALERS.format(namespace), made)["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 60,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, full],
        },
        "scaleDown": {"selectPolicy": "Disabled", "policies": [full]},
    }


@pytest.mark.parametrize(
    ("given", "causes"),
    [
        (scaler(maxReplicas=0), {"spec.maxReplicas": "must be set and greater than 0"}),
        (scaler(minReplicas=7), {"spec.maxReplicas": "must be greater than or equal to `minReplicas`"}),
        (
            scaler(minReplicas=0),
            {
                "spec.minReplicas": "must be greater than or equal to 1",
                "spec.metrics": "must specify at least one Object or External metric to support scaling to zero",
            },
        ),
        (
            scaler(scaleTargetRef={"kind": "Deployment", "name": ""}),
            {
                "spec.scaleTargetRef.name": "Required value",
                "spec.scaleTargetRef.apiVersion": "apiVersion must specify API group",
            },
        ),
        (
            scaler(of_cpu(averageUtilization=50, averageValue="1")),
            {"spec.metrics[0].resource.target.averageValue": "may not set both a target raw value and a target"},
        ),
        (
            scaler(of_cpu()),
            {"spec.metrics[0].resource.target.averageUtilization": "must set either a target raw value"},
        ),
        (
            scaler({"type": "Pods"}, {"type": "Other"}),
            {
                "spec.metrics[0].pods": "must populate information for the given metric source",
                "spec.metrics[1].type": 'Unsupported value: "Other"',
            },
        ),
        (
            scaler(behavior={"scaleUp": {"stabilizationWindowSeconds": 3601}}),
            {"spec.behavior.scaleUp.stabilizationWindowSeconds": "must be less than or equal to 3600"},
        ),
        (
            scaler(behavior={"scaleUp": {"policies": [{"type": "Sets", "value": 0, "periodSeconds": 1801}]}}),
            {
                "spec.behavior.scaleUp.policies[0].type": 'supported values: "Percent", "Pods"',
                "spec.behavior.scaleUp.policies[0].value": "must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds": "must be less than or equal to 1800",
            },
        ),
    ],
)
def test_an_autoscaler_that_cannot_scale_is_refused(
    kube: Any, namespace: str, given: dict[str, Any], causes: dict[str, str]
) -> None:
    refused = kube.request("POST", SCALERS.format(namespace), given)
    assert refused.code == 422
    found: dict[str, str] = {}
    for cause in refused.json["details"]["causes"]:
        found[cause["field"]] = f"{found.get(cause['field'], '')}{cause['message']}\n"
    assert found.keys() == causes.keys()
    for field, why in causes.items():
        assert why in found[field]
