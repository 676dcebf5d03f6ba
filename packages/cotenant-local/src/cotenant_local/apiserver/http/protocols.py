"""Protocols of the in-process API, as the HTTP layer uses it.

The HTTP layer depends on these Protocols instead of the verbs, so that it can be tested against a fake as well as
against the real API.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import (
    ApiAnswer,
    DeletionOptions,
    ListOptions,
    RequestTarget,
    Resource,
    WriteOptions,
)


class StoredProtocol(Protocol):
    """One stored object, encoded."""

    raw: bytes


class PageProtocol(Protocol):
    """One page of a list. `remaining` below 1 is not reported."""

    @property
    def items(self) -> Sequence[StoredProtocol]:
        """The objects."""

    @property
    def resource_version(self) -> int:
        """The revision of the snapshot."""

    @property
    def continue_token(self) -> str:
        """The token of the next page, empty on the last one."""

    @property
    def remaining(self) -> int:
        """The number of objects after this page."""


class WatchProtocol(Protocol):
    """A stream of encoded event lines."""

    async def chunk(self, max_bytes: int = ...) -> bytes:
        """All ready lines; empty at the end."""

    def close(self) -> None:
        """End the stream."""


class RegistryProtocol(Protocol):
    """The served resources."""

    @property
    def revision(self) -> int:
        """Incremented by every change."""

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a URL."""

    def resources(self) -> tuple[Resource, ...]:
        """All served resources."""


class ApiProtocol(Protocol):
    """The verbs. All raise ApiError."""

    @property
    def registry(self) -> RegistryProtocol:
        """The served resources."""

    async def get(self, target: RequestTarget) -> bytes:
        """GET of one object."""

    async def list(self, target: RequestTarget, options: ListOptions) -> PageProtocol:
        """GET of one page of a list."""

    def watch(self, target: RequestTarget, options: ListOptions) -> WatchProtocol:
        """A watch stream."""

    async def create(self, target: RequestTarget, obj: Manifest, options: WriteOptions) -> ApiAnswer:
        """POST of a new object or of a subresource."""

    async def update(self, target: RequestTarget, obj: Manifest, options: WriteOptions) -> ApiAnswer:
        """PUT."""

    async def patch(self, target: RequestTarget, body: bytes, content_type: str, options: WriteOptions) -> ApiAnswer:
        """PATCH."""

    async def delete(self, target: RequestTarget, options: DeletionOptions) -> ApiAnswer:
        """DELETE of one object."""

    async def delete_collection(
        self, target: RequestTarget, selection: ListOptions, options: DeletionOptions
    ) -> PageProtocol:
        """DELETE of a collection."""
