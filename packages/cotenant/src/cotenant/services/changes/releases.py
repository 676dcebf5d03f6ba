"""Releases for callers elsewhere: what `cotenant app` does, with changes that run on in a book.

Who is far away hands over text, and names charts by repository: no path of this machine is read for them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

from cotenant.engine.apps.run import ReleaseEnd
from cotenant.model.apps.release import check_release_name
from cotenant.model.assess.prices import PriceTable
from cotenant.model.cluster.class_names import check_class
from cotenant.model.errors import InvalidInput
from cotenant.services.apps.command import Apps, ListedRelease, said_of
from cotenant.services.apps.releases import How
from cotenant.services.apps.sources import MAX_BYTES, ManifestText
from cotenant.services.apps.viewing import ReleaseView
from cotenant.services.changes.book import ChangeBook, Say
from cotenant.services.changes.place import ClusterPlace, check_namespace

_CHART = re.compile(r"(oci://|https?://)[!-~]+|[a-z0-9][a-z0-9_.-]*/[a-z0-9][a-z0-9_.-]*", re.IGNORECASE)
_VERSION = re.compile(r"[0-9A-Za-z^~<>=.*+ -]{0,64}")
MAX_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class GivenApplication:
    """`manifests`: YAML; or `chart`: oci://..., https://... or REPOSITORY/CHART, with its `values` as YAML."""

    manifests: str = ""
    chart: str = ""
    values: str = ""
    version: str = ""
    class_name: str = ""

    def source(self) -> str | ManifestText:
        """What it is installed from. Raises `InvalidInput`."""
        if bool(self.manifests) == bool(self.chart):
            raise InvalidInput("manifests, chart", "both" if self.chart else "neither", "one of them")
        if self.manifests:
            if self.values or self.version:
                raise InvalidInput("values, version", "given", "none", "they are a chart's")
            return ManifestText(self.manifests)
        if not _CHART.fullmatch(self.chart) or Path(self.chart).exists():
            raise InvalidInput("chart", self.chart[:200], "oci://..., https://... or REPOSITORY/CHART")
        if not _VERSION.fullmatch(self.version):
            raise InvalidInput("version", self.version[:64], "a version, as 1.2.3")
        if len(self.values) > MAX_BYTES:
            raise InvalidInput("values", f"{len(self.values)} characters", f"at most {MAX_BYTES}")
        return self.chart


class Releases:
    """The releases of a cluster. Changes return the name of their report in the book."""

    def __init__(self, place: ClusterPlace, book: ChangeBook) -> None:
        self._place, self._book = place, book

    async def every(self, namespace: str = "") -> list[ListedRelease]:
        """Of a namespace, or of all."""
        async with self._place.releases(check_namespace(namespace), _silent) as apps:
            return await apps.every(not namespace)

    async def show(self, namespace: str, name: str, prices: PriceTable | None = None) -> ReleaseView:
        """All about one release."""
        async with self._place.releases(check_namespace(namespace), _silent) as apps:
            return await apps.show(name, prices)

    def install(self, namespace: str, name: str, given: GivenApplication, how: How, by: str = "") -> str:
        """A new release."""
        return self._changed(
            "install", "installed", namespace, name, by, lambda apps: _install(apps, name, given, how), given
        )

    def upgrade(self, namespace: str, name: str, given: GivenApplication, how: How, by: str = "") -> str:
        """The next revision."""
        return self._changed(
            "upgrade", "upgraded", namespace, name, by, lambda apps: _upgrade(apps, name, given, how), given
        )

    def roll_back(self, namespace: str, name: str, number: int, how: How, by: str = "") -> str:
        """An earlier revision again; 0 = the one before."""
        return self._changed(
            "rollback", "rolled back", namespace, name, by, lambda apps: apps.roll_back(name, number, how)
        )

    def stop(self, namespace: str, name: str, how: How, by: str = "") -> str:
        """No pod of it runs."""
        return self._changed("stop", "stopped", namespace, name, by, lambda apps: apps.stop(name, how))

    def start(self, namespace: str, name: str, how: How, by: str = "") -> str:
        """As it was before it was stopped."""
        return self._changed("start", "started", namespace, name, by, lambda apps: apps.start(name, how))

    def uninstall(self, namespace: str, name: str, how: How, by: str = "") -> str:
        """Remove it, but for what holds data."""
        return self._changed(
            "uninstall", "uninstalled", namespace, name, by, lambda apps: apps.uninstall(name, how, False)
        )

    def _changed(
        self,
        verb: str,
        done: str,
        namespace: str,
        name: str,
        by: str,
        change: Callable[[Apps], Awaitable[ReleaseEnd]],
        given: GivenApplication | None = None,
    ) -> str:
        key = f"{check_namespace(namespace) or '(default)'}/{check_release_name(name)}"
        if given is not None:
            given.source()
            check_class(given.class_name)

        async def work(say: Say) -> str:
            async with self._place.releases(namespace, say) as apps:
                finished = await change(apps)
            for line in said_of(name, done, finished):
                say(line)
            return finished.failure

        return self._book.begin(f"release {key}", f"{verb} of release {key}", work, by)


def how_of(timeout_s: float, rollback_on_failure: bool = False, adopt: bool = False) -> How:
    """How a change is made. Raises `InvalidInput`."""
    if not (isfinite(timeout_s) and 0 < timeout_s <= MAX_TIMEOUT_S):
        raise InvalidInput("timeout_s", timeout_s, f"seconds above 0, at most {MAX_TIMEOUT_S:g}")
    return How(timeout_s, True, rollback_on_failure, adopt)


async def _install(apps: Apps, name: str, given: GivenApplication, how: How) -> ReleaseEnd:
    async with _options(given) as options:
        return await apps.install(name, given.source(), options, how, given.class_name, False)


async def _upgrade(apps: Apps, name: str, given: GivenApplication, how: How) -> ReleaseEnd:
    async with _options(given) as options:
        return await apps.upgrade(name, given.source(), options, how, given.class_name)


@asynccontextmanager
async def _options(given: GivenApplication) -> AsyncIterator[Sequence[str]]:
    """Helm's options, with the values in a file that only this user can read."""
    options = [f"--version={given.version}"] if given.version else []
    if not given.values:
        yield options
        return
    with TemporaryDirectory(prefix="cotenant-values-") as folder:
        file = Path(folder) / "values.yaml"
        file.write_text(given.values)
        yield [*options, f"--values={file}"]


def _silent(_: str) -> None:
    """Questions have no progress."""
