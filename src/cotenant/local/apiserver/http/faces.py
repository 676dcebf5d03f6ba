"""What the HTTP layer asks of the in-process API.

The verbs are another part's; these Protocols are the seam, so that this layer is tested against a fake as well as against the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cotenant.local.apiserver.contract import (
    Answer,
    DeleteOptions,
    ListOptions,
    Manifest,
    Resource,
    Target,
    WriteOptions,
)


class StoredFace(Protocol):
    """One stored object, encoded."""

    raw: bytes


class PageFace(Protocol):
    """One page of a list. `remaining` below 1 is not told."""

    @property
    def items(self) -> Sequence[StoredFace]:
        """The objects."""

    @property
    def resource_version(self) -> int:
        """The snapshot."""

    @property
    def continue_token(self) -> str:
        """Where the next page starts, empty on the last one."""

    @property
    def remaining(self) -> int:
        """How many follow."""


class WatchFace(Protocol):
    """A stream of encoded event lines."""

    async def chunk(self, most_bytes: int = ...) -> bytes:
        """All lines that are ready; empty at the end."""

    def close(self) -> None:
        """End it."""


class RegistryFace(Protocol):
    """What is served."""

    @property
    def revision(self) -> int:
        """Rises with every change."""

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """By URL."""

    def resources(self) -> tuple[Resource, ...]:
        """All."""


class ApiFace(Protocol):
    """The verbs. All raise ApiError."""

    @property
    def registry(self) -> RegistryFace:
        """What is served."""

    async def get(self, target: Target) -> bytes:
        """One object."""

    async def list(self, target: Target, options: ListOptions) -> PageFace:
        """One page."""

    def watch(self, target: Target, options: ListOptions) -> WatchFace:
        """A stream."""

    async def create(self, target: Target, obj: Manifest, options: WriteOptions) -> Answer:
        """A new object, or what a subresource makes of it."""

    async def update(self, target: Target, obj: Manifest, options: WriteOptions) -> Answer:
        """Replace."""

    async def patch(self, target: Target, body: bytes, content_type: str, options: WriteOptions) -> Answer:
        """Change in part."""

    async def delete(self, target: Target, options: DeleteOptions) -> Answer:
        """Begin, or finish, its end."""

    async def delete_collection(self, target: Target, selection: ListOptions, options: DeleteOptions) -> PageFace:
        """Many at once."""
