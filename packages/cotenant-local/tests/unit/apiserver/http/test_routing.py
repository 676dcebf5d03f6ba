"""Parsing of resource URLs."""

from __future__ import annotations

import pytest

from cotenant_local.apiserver.http.routing import Route, parse


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/pods", Route("", "v1", "pods")),
        ("/api/v1/namespaces", Route("", "v1", "namespaces")),
        ("/api/v1/namespaces/x", Route("", "v1", "namespaces", "", "x")),
        ("/api/v1/namespaces/x/status", Route("", "v1", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/finalize", Route("", "v1", "namespaces", "", "x", "finalize")),
        ("/api/v1/namespaces/x/pods", Route("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/", Route("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/p/binding", Route("", "v1", "pods", "x", "p", "binding")),
        ("/apis/apps/v1/namespaces/x/deployments/d/scale", Route("apps", "v1", "deployments", "x", "d", "scale")),
        ("/apis/apps/v1/deployments", Route("apps", "v1", "deployments")),
        ("/apis/a.b/v1/namespaces/status/things", Route("a.b", "v1", "things", "status")),
        ("/api/v1/nodes/n/status", Route("", "v1", "nodes", "", "n", "status")),
    ],
)
def test_resources(path: str, route: Route) -> None:
    assert parse(path) == route


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/api/v1//pods", "/api/v1/pods/p/a/b"],
)
def test_paths_that_are_not_resources(path: str) -> None:
    assert parse(path) is None
