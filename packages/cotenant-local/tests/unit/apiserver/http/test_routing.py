"""Parsing of resource URLs."""

from __future__ import annotations

import pytest

from cotenant_local.apiserver.http.routing import ResourceRoute, parse


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/pods", ResourceRoute("", "v1", "pods")),
        ("/api/v1/namespaces", ResourceRoute("", "v1", "namespaces")),
        ("/api/v1/namespaces/x", ResourceRoute("", "v1", "namespaces", "", "x")),
        ("/api/v1/namespaces/x/status", ResourceRoute("", "v1", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/finalize", ResourceRoute("", "v1", "namespaces", "", "x", "finalize")),
        ("/api/v1/namespaces/x/pods", ResourceRoute("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/", ResourceRoute("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/p/binding", ResourceRoute("", "v1", "pods", "x", "p", "binding")),
        (
            "/apis/apps/v1/namespaces/x/deployments/d/scale",
            ResourceRoute("apps", "v1", "deployments", "x", "d", "scale"),
        ),
        ("/apis/apps/v1/deployments", ResourceRoute("apps", "v1", "deployments")),
        ("/apis/a.b/v1/namespaces/status/things", ResourceRoute("a.b", "v1", "things", "status")),
        ("/api/v1/nodes/n/status", ResourceRoute("", "v1", "nodes", "", "n", "status")),
    ],
)
def test_resources(path: str, route: ResourceRoute) -> None:
    assert parse(path) == route


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/api/v1//pods", "/api/v1/pods/p/a/b"],
)
def test_paths_that_are_not_resources(path: str) -> None:
    assert parse(path) is None
