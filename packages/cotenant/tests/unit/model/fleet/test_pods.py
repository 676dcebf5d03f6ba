"""How a pod is named."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.pods import PodName


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("web-1", PodName("web-1")),
        ("shop/web-1", PodName("web-1", "shop")),
        ("shop/web-1/app", PodName("web-1", "shop", "app")),
        ("shop/web.example", PodName("web.example", "shop")),
    ],
)
def test_names_are_read_and_written_alike(text: str, wanted: PodName) -> None:
    assert PodName.read("guid", text) == wanted
    assert str(wanted) == text


@pytest.mark.parametrize("text", ["", "/", "shop/", "shop//app", "a/b/c/d", "Shop/web", "shop/web~1", "-x", "x" * 254])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="NAMESPACE/NAME/CONTAINER"):
        PodName.read("guid", text)
