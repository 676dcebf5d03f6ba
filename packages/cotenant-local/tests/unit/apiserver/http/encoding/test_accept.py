"""Content negotiation."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.http.discovery import aggregated_version
from cotenant_local.apiserver.http.encoding.accept import Representation, ResponseForm, negotiate

_KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", Representation()),
        ("*/*", Representation()),
        ("application/json", Representation()),
        ("application/yaml", Representation(is_yaml=True)),
        ("application/vnd.kubernetes.protobuf,application/json", Representation()),
        ("application/json;q=0.1, application/yaml", Representation(is_yaml=True)),
        (_KUBECTL, Representation(ResponseForm.TABLE)),
        (
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Representation(ResponseForm.TABLE, group_version="v1beta1"),
        ),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Representation(ResponseForm.METADATA)),
        ("application/json;as=Nonsense;g=meta.k8s.io;v=v1,application/json", Representation()),
    ],
)
def test_the_first_acceptable_clause_wins(header: str, wanted: Representation) -> None:
    assert negotiate(header) == wanted


@pytest.mark.parametrize(
    "header",
    ["text/csv", "application/vnd.kubernetes.protobuf", "application/json;as=Nonsense", "application/json;q=0"],
)
def test_otherwise_not_acceptable(header: str) -> None:
    with pytest.raises(ApiError) as caught:
        negotiate(header)
    assert caught.value.code == 406


def test_aggregated_discovery_is_negotiated() -> None:
    assert aggregated_version(_AGGREGATED) == "v2"
    assert aggregated_version(_AGGREGATED.split(",", 1)[1]) == "v2beta1"
    assert aggregated_version("application/json") == ""
    assert aggregated_version("*/*") == ""
