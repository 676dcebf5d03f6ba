"""The zone and region labels of volumes, as kube-scheduler's VolumeZone reads them."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.kinds.storage.zones import read_zone
from cotenant.model.cluster.labels import Labels

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("volume", "node", "reached"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a"}, {}, True),  # a cluster without zones
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__ b"}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: "a____b"}, {ZONE: "c"}, True),  # an empty value: the label is ignored
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),  # the new label of a node meets the old one of a volume
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({OLD_ZONE: "a", OLD_REGION: "r"}, {ZONE: "a", OLD_REGION: "r"}, True),
    ],
)
def test_nodes_that_reach_a_volume(volume: dict[str, str], node: dict[str, str], reached: bool) -> None:
    selector = read_zone(volume)
    assert selector is None or selector.terms
    assert (selector is None or selector.matches("n", Labels.of(node))) is reached


def test_a_volume_without_zone_labels_is_not_restricted() -> None:
    assert read_zone({"app": "db"}) is None
