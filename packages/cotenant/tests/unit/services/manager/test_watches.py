"""From what an API server delivers to the manager's engines, and what is said of a faulty ConfigMap."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.servers.told_watches import ToldWatches

from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.manager.gpu_nodes import GpuNodes
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.node_ratios import NodeRatioKeeper
from cotenant.engine.manager.quota_profiles import QuotaProfiles
from cotenant.services.manager.watches import ConfigSource, ManagerWatches

GOOD = {"colocation-config": '{"enable": true}'}
SIZE = {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"}}
BAD = {"colocation-config": "{"}


class Told:
    """The watches of a manager; `said`: (uid of the ConfigMap, number of errors)."""

    def __init__(self) -> None:
        self.watches, self.manager = ToldWatches(), Manager()
        self.said: list[tuple[str, int]] = []
        self.of = ManagerWatches(
            self.watches,
            self.manager,
            ConfigSource("system", "settings"),
            lambda: 100.0,
            lambda uid, errors: self.said.append((uid, len(errors))),
            QuotaProfiles(),
            NodeRatioKeeper(),
            GpuNodes(),
        )

    def config(self, data: dict[str, str] | None, **meta: str) -> None:
        document: dict[str, Any] = {"metadata": {"namespace": "system", "name": "settings", **meta}}
        self.watches.seen(CONFIG_MAPS, document if data is None else {**document, "data": data})

    @property
    def lends(self) -> bool:
        config = self.manager.colocation.config
        return config is not None and bool(config.cluster.enable)


@pytest.fixture
def told() -> Told:
    return Told()


def test_only_the_one_config_map_is_watched(told: Told) -> None:
    assert told.watches.selectors["ConfigMap"] == ("system", "metadata.name=settings")


def test_a_config_map_that_was_not_delivered_does_not_exist(told: Told) -> None:
    assert not told.manager.has_config
    told.of.synced()
    assert told.manager.has_config
    assert (told.lends, told.said) == (False, [("", 0)])  # there is no object to which errors could be written
    assert told.manager.config_errors == ("there is no ConfigMap: defaults, nothing is lent",)


def test_one_that_was_delivered_stays_in_force(told: Told) -> None:
    told.config(GOOD, uid="u")
    assert told.lends
    told.of.synced()
    assert told.lends


def test_one_without_data_is_as_one_that_is_empty(told: Told) -> None:
    told.config(GOOD, uid="u")
    told.config(None, uid="u")
    assert (told.lends, told.said) == (False, [])


def test_one_that_is_deleted_takes_its_settings_with_it(told: Told) -> None:
    told.config(GOOD, uid="u")
    told.watches.gone(CONFIG_MAPS, "system/settings")
    assert not told.lends


def test_errors_are_said_when_they_change_and_when_there_are_none_any_more(told: Told) -> None:
    told.config(GOOD, uid="u")
    assert told.said == []
    told.config(BAD, uid="u")
    told.config(BAD, uid="u")
    assert (told.lends, told.said) == (True, [("u", 1)])  # the last good one stays
    told.config(GOOD, uid="u")
    assert told.said == [("u", 1), ("u", 0)]


def test_a_faulty_one_that_is_deleted_has_no_errors(told: Told) -> None:
    told.config(BAD)
    told.watches.gone(CONFIG_MAPS, "system/settings")
    assert told.said == [("", 1), ("", 0)]


def test_nodes_and_pods_come_and_go(told: Told) -> None:
    told.watches.seen(NODES, {"metadata": {"name": "n", "uid": "u-n"}, "status": SIZE})
    assert list(told.manager.nodes()) == ["n"]
    spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    pod = {"metadata": {"namespace": "d", "name": "p", "uid": "u-p"}, "spec": spec, "status": {"phase": "Running"}}
    told.watches.seen(PODS, pod)
    assert set(told.manager._nodes["n"].pods) == {"u-p"}
    told.watches.gone(PODS, "d/p")
    assert set(told.manager._nodes["n"].pods) == set()
    told.watches.gone(NODES, "n")
    assert list(told.manager.nodes()) == []
