"""Where the authorities are published."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.certificates.parts import parse_bundle


def test_a_bundle_is_the_namespace_and_name_of_a_config_map() -> None:
    assert parse_bundle("", "--bundle") is None
    assert parse_bundle("team/roots", "--bundle") == ("team", "roots")


@pytest.mark.parametrize("written", ["roots", "team/", "/roots", "a/b/c", "/"])
def test_what_names_no_config_map_is_refused_by_the_option(written: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--bundle: .*: expected NAMESPACE/NAME of a ConfigMap"):
        parse_bundle(written, "--bundle")
