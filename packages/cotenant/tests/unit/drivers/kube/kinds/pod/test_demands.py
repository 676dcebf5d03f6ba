"""Gangs, CPUs and devices in a pod's annotations."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.kinds.custom.reservation_writing import holdings_patch
from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.pod.demands import read_demands, read_holdings, texts_of_holdings, written_holdings
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations
from cotenant.model.cluster.demands import GPU_SHARE, NO_DEMANDS, NO_HOLDINGS, Holdings
from cotenant.model.cluster.seal import SEAL, SEALED
from cotenant.model.cpus.spec import RESOURCE_STATUS, ResourceStatus
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, DeviceAllocation
from cotenant.model.devices.card_need import CardNeed, ServingPhase
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import GangMode, GangNotes, MatchPolicy
from cotenant.model.resources import GPU_CORE, Amounts


def test_a_gang_in_annotations() -> None:
    wrong: list[str] = []
    written = PodAnnotations(
        gang_name="train",
        gang_min_available="3",
        gang_mode="NonStrict",
        gang_waiting_time="1m30s",
        gang_groups='["a/x","b/y"]',
        gang_match_policy="only-waiting",
    )
    found = read_demands(written, wrong).gang
    assert found == GangNotes("train", 3, None, 90.0, GangMode.NON_STRICT, ("a/x", "b/y"), MatchPolicy.ONLY_WAITING)
    assert wrong == []
    assert read_demands(PodAnnotations(), wrong) is NO_DEMANDS
    assert read_holdings(PodAnnotations(), wrong) is NO_HOLDINGS


def test_what_cannot_be_read_is_a_sentence_and_the_rest_counts() -> None:
    wrong: list[str] = []
    written = PodAnnotations(gang_name="train", gang_min_available="-1", gang_mode="strict", gang_groups="a/x")
    found = read_demands(written, wrong).gang
    assert found is not None
    assert found == GangNotes("train", wrong=found.wrong)
    assert [said.split(":")[0].rpartition("/")[2] for said in found.wrong] == ["min-available", "mode", "groups"]
    assert wrong == []  # of a gang it falls back to the default, and does not hold the pod back


def test_what_a_pod_needs_of_a_card() -> None:
    wrong: list[str] = []
    written = PodAnnotations(gpu_need='{"sm": 30, "phase": "decode"}')
    assert read_demands(written, wrong).card_need == CardNeed(30, phase=ServingPhase.DECODE)
    assert wrong == []
    assert read_demands(PodAnnotations(gpu_need='{"sm": 300}'), wrong) is NO_DEMANDS
    assert wrong == ["cotenant.io/gpu-need: sm: 300: expected percent of one card, a whole number from 0 to 100"]


def test_holdings_come_back_as_they_were_written() -> None:
    holds = Holdings(cpus=ResourceStatus((0, 1, 4)))
    (text,) = written_holdings(holds).values()
    assert read_holdings(PodAnnotations(resource_status=text), []) == holds
    assert written_holdings(NO_HOLDINGS) == {}


@pytest.mark.parametrize("text", ["", "10", "5x", "1m 2s", "-3s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidInput, match="duration"):
        duration_s(text, "waiting-time")


def test_what_enforces_a_share_of_a_gpu_is_written_with_the_share_and_read_back() -> None:
    share = DeviceAllocation(DeviceType.GPU, 0, Amounts.of({GPU_CORE: 50}))
    holds = Holdings(devices=(share,), gpu_share="nothing")
    texts = written_holdings(holds)
    assert texts["cotenant.io/gpu-share-enforced-by"] == "nothing"
    wrong: list[str] = []
    written = PodAnnotations(device_allocated=texts[DEVICE_ALLOCATED], gpu_share="nothing")
    assert (read_holdings(written, wrong), wrong) == (holds, [])
    assert read_holdings(PodAnnotations(gpu_share="nothing"), wrong) == NO_HOLDINGS  # a copied note, without a share


def test_every_note_about_holdings_that_was_there_before_is_emptied_by_a_bind_that_gives_none() -> None:
    forged = PodAnnotations(
        resource_status="{}", device_allocated="{}", reservation_allocated="{}", gpu_share="hami", seal="x"
    )
    texts = texts_of_holdings(forged)
    assert texts.keys() == {*SEALED, SEAL, GPU_SHARE}
    assert written_holdings(NO_HOLDINGS, texts) == dict.fromkeys(texts, "")
    whole = Holdings(devices=(DeviceAllocation(DeviceType.GPU, 0, Amounts.of({GPU_CORE: 100})),))
    assert written_holdings(whole, texts)[GPU_SHARE] == ""
    assert texts_of_holdings(PodAnnotations(gpu_share="")) == {}


@pytest.mark.parametrize("share", ["", "hami"])
def test_a_reservation_that_is_allocated_again_keeps_no_older_note(share: str) -> None:
    one = Holdings(devices=(DeviceAllocation(DeviceType.GPU, 0, Amounts.of({GPU_CORE: 50})),), gpu_share=share)
    metadata = holdings_patch("uid-1", one)["metadata"]
    assert isinstance(metadata, dict)
    notes = metadata["annotations"]
    assert (metadata["uid"], notes[RESOURCE_STATUS], notes[GPU_SHARE]) == ("uid-1", None, share or None)
    assert read_holdings(PodAnnotations(device_allocated=notes[DEVICE_ALLOCATED], gpu_share=share), []) == one
