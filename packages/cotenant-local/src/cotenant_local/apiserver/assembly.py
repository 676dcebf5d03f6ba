"""Assembles an API server from a store, the built-in kinds with their schemas, and patches.

The verbs do not depend on schemas, patches and printer columns, so that each can be tested alone. They are combined
here and nowhere else.
Limits: what needs a running server (webhooks, custom resources) is added to the `Api` by its owner.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from cotenant.drivers.kube.manifests.openapi import definition_name
from cotenant_local.apiserver import patching
from cotenant_local.apiserver.contract import Resource
from cotenant_local.apiserver.kinds.built_in import BUILT_IN, DEVICE_API, EVICTION_API, WORKLOAD_API
from cotenant_local.apiserver.kinds.quotas import ResourceQuotas
from cotenant_local.apiserver.registry import ResourceRegistry
from cotenant_local.apiserver.schema.builtin import builtin_schema
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api


def built_in() -> tuple[Resource, ...]:
    """Every built-in resource with its schema, those of the newer APIs where there are schemas of them.

    Raises Unsupported if the package that provides the schemas is missing.
    """
    served = [
        resource
        for resource in (*WORKLOAD_API, *DEVICE_API, *EVICTION_API)
        if definition_name(resource.group, resource.version, resource.kind) is not None
    ]
    return tuple(map(with_schema, (*BUILT_IN, *served)))


def with_schema(resource: Resource) -> Resource:
    """A built-in resource with its schema."""
    return replace(resource, schema=builtin_schema(resource.group, resource.version, resource.kind))


def assemble(
    store: Store,
    *,
    clock: Callable[[], float] = time.time,
    rng: random.Random | None = None,
    taints_new_nodes: bool = True,
) -> Api:
    """An API server over a store, without webhooks and controllers. `taints_new_nodes`: whether a node controller
    will run.
    """
    api = Api(
        store, ResourceRegistry(built_in()), patching=patching, clock=clock, rng=rng, taints_new_nodes=taints_new_nodes
    )
    quotas = ResourceQuotas(api.context.quota_sums)
    api.context.check_room = lambda target, obj: quotas.check(target, obj, api.context)
    return api
