from __future__ import annotations

import pytest

from cotenant.model.sizes.container import ContainerProgram
from cotenant.policy.assess.heap_floor import MIB, NOTHING_TOLD, heap_floor


def program(line: str, **env: str | None) -> ContainerProgram:
    return ContainerProgram(tuple(line.split()), tuple(env.items()))


@pytest.mark.parametrize(
    ("told", "floor_mib", "why"),
    [
        (program("java -Xmx2g -jar a.jar"), 2560, "the JVM was told a heap of 2,048 MiB"),
        (program("java -Xmx2g -Xmx1024m -jar a.jar"), 1280, "a heap of 1,024 MiB"),  # the last one counts
        (program("java -XX:MaxHeapSize=100m -jar a.jar"), 164, "a heap of 100 MiB"),  # at least 64 MiB beside it
        (program("java -Xmx1g -XX:MaxDirectMemorySize=2g -jar a.jar"), 3072, "a heap of 1,024 MiB"),
        (program("run.sh", JAVA_OPTS="-Xms1g -Xmx4096m"), 5120, "a heap of 4,096 MiB"),
        (program("java $(HEAP) -jar a.jar", HEAP="-Xmx512m"), 640, "a heap of 512 MiB"),
        (program("java -XX:MaxRAM=4g -XX:MaxRAMPercentage=50 -jar a.jar"), 2560, "2,048 MiB by MaxRAM"),
        (program("/server", GOMEMLIMIT="900MiB"), 990, "GOMEMLIMIT is 900 MiB"),
        (program("node --max-old-space-size=1024 a.js"), 1280, "node was told a heap of 1,024 MiB"),
        (program("npm start", NODE_OPTIONS="--max-old-space-size=400"), 500, "node was told"),
        (program("celery worker --max-memory-per-child=204800 --concurrency=4"), 800, "Celery was told 200 MiB"),
        (program("uwsgi --reload-on-rss 256 --processes 3"), 768, "uWSGI was told 256 MiB for each of 3"),
    ],
)
def test_a_fixed_amount_is_a_floor(told: ContainerProgram, floor_mib: int, why: str) -> None:
    found = heap_floor(told)
    assert found.bytes == pytest.approx(floor_mib * MIB, abs=MIB)
    assert (found.keeps_limit, found.keeps_all) == (False, False)
    assert why in found.why


@pytest.mark.parametrize(
    "told",
    [
        program("java -XX:MaxRAMPercentage=75.0 -jar a.jar"),
        program("/usr/bin/java -jar a.jar"),  # 25 % of the limit, by default
        program("run.sh", JDK_JAVA_OPTIONS="-XX:MaxRAMPercentage=80"),
    ],
)
def test_a_share_of_the_limit_keeps_the_limit(told: ContainerProgram) -> None:
    found = heap_floor(told)
    assert (found.bytes, found.keeps_limit, found.keeps_all) == (0, True, False)
    assert "share of the limit" in found.why


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (program("run.sh", JAVA_TOOL_OPTIONS=None), "the value of JAVA_TOOL_OPTIONS is taken from elsewhere"),
        (program("/server", GOMEMLIMIT=None), "the value of GOMEMLIMIT"),
        (ContainerProgram(("run.sh",), (), has_more_env=True), "a whole ConfigMap or Secret"),
        (ContainerProgram(is_known=False), "the copy has no arguments"),
        (program("celery worker --max-memory-per-child=204800"), "no fixed number"),
    ],
)
def test_what_cannot_be_read_keeps_all(told: ContainerProgram, why: str) -> None:
    found = heap_floor(told)
    assert found.keeps_all
    assert why in found.why


@pytest.mark.parametrize(
    "told",
    [
        program("nginx -g daemon-off"),
        program("/server", GOMEMLIMIT="off"),
        program("/server", GOMEMLIMIT="1.5GiB"),  # the runtime refuses it too
        program("sh -c ./javascript-server", PATH="/usr/lib/jvm/bin"),
        program("run.sh", PASSWORD=None),
    ],
)
def test_nothing_told(told: ContainerProgram) -> None:
    assert heap_floor(told) == NOTHING_TOLD
