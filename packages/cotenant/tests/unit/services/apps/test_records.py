"""Records: written, read, and what is no record of ours."""

from __future__ import annotations

from base64 import b64encode
from random import Random

import pytest

from cotenant.model.apps.release import Revision, RevisionState, deployed, possibly_there
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.services.apps.records import TYPE, decoded, encoded

MAP: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def secret(text: str, kind: str = TYPE, name: str = "cotenant.release.web.v3") -> JsonObject:
    return {"metadata": {"name": name}, "type": kind, "data": {"release": text}}


def test_a_revision_comes_back() -> None:
    written = Revision(3, RevisionState.FAILED, (MAP,), 5.0, 7.0, "why", "batch")
    assert decoded(secret(encoded(written))) == written


@pytest.mark.parametrize(
    "of",
    [
        secret("%%"),
        secret(b64encode(b"no gzip").decode()),
        secret(encoded(Revision(3, RevisionState.DEPLOYED, ({"kind": "Pod"},), 0.0))),
        secret(encoded(Revision(3, RevisionState.DEPLOYED, (), 0.0)), kind="Opaque"),
        secret(encoded(Revision(3, RevisionState.DEPLOYED, (), 0.0)), name="other"),
        {"metadata": {"name": "cotenant.release.web.v3"}, "type": TYPE},
    ],
)
def test_what_cannot_be_read_is_no_revision(of: JsonObject) -> None:
    assert decoded(of) is None


def test_what_a_secret_does_not_hold_is_refused() -> None:
    noise = Random(1).randbytes(1 << 20).hex()
    with pytest.raises(InvalidInput, match="Secret"):
        encoded(Revision(1, RevisionState.PENDING, ({**MAP, "data": {"a": noise}},), 0.0))


def test_what_may_be_there_is_of_the_deployed_revision_and_of_all_after_it() -> None:
    def revision(number: int, state: RevisionState, name: str) -> Revision:
        return Revision(number, state, ({**MAP, "metadata": {"name": name}},), 0.0)

    history = (
        revision(1, RevisionState.DEPLOYED, "gone"),
        revision(2, RevisionState.SUPERSEDED, "older"),
        revision(3, RevisionState.DEPLOYED, "stands"),
        revision(4, RevisionState.FAILED, "tried"),
        revision(5, RevisionState.PENDING, "killed"),
    )
    assert {one["metadata"]["name"] for one in possibly_there(history)} == {"stands", "tried", "killed"}
    found = deployed(history)
    assert found is not None
    assert found.number == 3
