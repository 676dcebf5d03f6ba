"""A kind of object, its place in the API, and the base of the structs that objects are decoded into.

A Pod of 3 KB becomes 8 to 22 KiB as a dict or as a generated model, and costs 200 us to read; a scheduler needs a few
dozen of its fields. Frozen msgspec structs that name exactly those, each in the module of its kind; the decoder skips
what is not named without building it. A null means absent everywhere, as it does to Kubernetes. `Kind` ties a struct to
its place in the API.
Limits: fields that are not named are lost, so such a struct is never written back as an update of a foreign object:
those go by patch.
Source: Kubernetes API reference, v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from msgspec import Meta, Struct

Text = str | None
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]  # what the API gives such fields
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[datetime, Meta(tz=True)]
Quantities = dict[str, str | int | float] | None
Strings = dict[str, str] | None


class ApiStruct(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of all structs: unknown fields are skipped, defaults are not written."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of object and its place in the API: `group` is empty for the core group; `form` is its struct."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool
    form: type[T]

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource. No namespace = all of them."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


AnyKind: TypeAlias = Kind[Any]  # whatever its objects are decoded into
