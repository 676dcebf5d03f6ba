"""Every turn that a list/watch conversation can take, without a server."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.cache.cache import Changed, Synced
from cotenant.drivers.kube.cache.listwatch import LONGEST_PAUSE_S, ListPage, ListWatch, OpenWatch, Pause, WatchEventType
from cotenant.drivers.kube.client.errors import Gone, Invalid, StreamTimeout, Throttled, Unavailable
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, PodObject


def pod(name: str, version: int) -> PodObject:
    return PodObject(metadata=PodMeta(name=name, namespace="d", uid=name, resource_version=str(version)))


def machine(streaming: bool = False, later_portion: int = 0) -> ListWatch[PodObject]:
    return ListWatch("Pod", lambda: 1.0, page=10, streaming=streaming, later_portion=later_portion)


def listed(version: int = 5) -> ListWatch[PodObject]:
    """One that has its list and is about to watch."""
    watching = machine()
    watching.on_page([], [], str(version), "")
    assert watching.step() == OpenWatch(str(version))
    return watching


def test_pages_then_watch() -> None:
    watching = machine()
    assert watching.step() == ListPage(10)
    assert watching.on_page([pod("a", 1)], [], "5", "t") == []
    assert not watching.synced
    assert watching.step() == ListPage(10, "t")
    assert watching.on_page([pod("b", 2)], [], "5", "")[-1] == Synced("Pod", "5", 2)
    assert watching.synced
    assert watching.step() == OpenWatch("5")


def test_a_page_that_fails_is_asked_for_again_where_it_was() -> None:
    watching = machine()
    watching.on_page([pod("a", 1)], [], "5", "t")
    watching.on_error(Unavailable("503"))
    assert isinstance(watching.step(), Pause)
    assert watching.step() == ListPage(10, "t")


def test_pauses_grow_are_capped_and_end_with_news() -> None:
    watching = listed()
    pauses = []
    for _ in range(10):
        watching.on_error(Unavailable("down"))
        pause = watching.step()
        assert isinstance(pause, Pause)
        pauses.append(pause.seconds)
        assert watching.step() == OpenWatch("5")
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == LONGEST_PAUSE_S
    watching.on_open()
    watching.on_event(WatchEventType.ADDED, pod("a", 6))
    watching.on_error(Unavailable("down"), lasted_s=0.1)
    assert watching.step() == Pause(0.5, "down")


def test_jitter_is_between_half_and_whole() -> None:
    watching = ListWatch[PodObject]("Pod", lambda: 0.0)
    watching.on_error(Unavailable("down"))
    assert watching.step() == Pause(0.25, "down")


def test_throttling_is_waited_out() -> None:
    watching = machine()
    watching.on_error(Throttled("slow down", 60.0))
    assert watching.step() == Pause(60.0, "slow down")


@pytest.mark.parametrize("lasted_s", [0.2, 300.0])
def test_a_watch_with_news_resumes_without_a_pause(lasted_s: float) -> None:
    watching = listed()
    watching.on_open()
    watching.on_event(WatchEventType.ADDED, pod("a", 9))
    watching.on_end(lasted_s)
    assert watching.step() == OpenWatch("9")


def test_a_watch_that_ends_at_once_pauses() -> None:
    watching = listed()
    watching.on_open()
    watching.on_end(0.01)
    assert isinstance(watching.step(), Pause)
    assert watching.step() == OpenWatch("5")


def test_a_future_version_stays_silent_and_leads_to_a_list() -> None:
    watching = listed(999_999)
    watching.on_open()
    watching.on_end(300.0)  # its whole time, not even a bookmark
    assert watching.step() == ListPage(10)
    watching.on_page([pod("a", 6)], [], "7", "")
    assert watching.step() == OpenWatch("7")
    watching.on_event(WatchEventType.MODIFIED, pod("a", 8))
    assert watching.cache.resource_version == "8"


def test_a_bookmark_is_a_sign_of_life_and_moves_on() -> None:
    watching = listed()
    watching.on_open()
    watching.on_bookmark("40", False)
    watching.on_end(300.0)
    assert watching.step() == OpenWatch("40")


def test_an_older_bookmark_does_not_go_back() -> None:
    watching = listed(50)
    watching.on_open()
    watching.on_bookmark("40", False)
    watching.on_end(300.0)
    assert watching.step() == OpenWatch("50")


def test_silence_after_news_resumes() -> None:
    watching = listed()
    watching.on_open()
    watching.on_event(WatchEventType.ADDED, pod("a", 9))
    watching.on_error(StreamTimeout("nothing"))
    assert watching.step() == OpenWatch("9")


def test_garbage_twice_without_news_leads_to_a_list() -> None:
    watching = listed()
    for expected in (OpenWatch("5"), ListPage(10)):
        watching.on_open()
        watching.on_invalid_line("no JSON")
        assert isinstance(watching.step(), Pause)
        assert watching.step() == expected


def test_garbage_with_news_in_between_only_resumes() -> None:
    watching = listed()
    for version in (6, 7, 8):
        watching.on_open()
        watching.on_event(WatchEventType.ADDED, pod(f"p{version}", version))
        watching.on_invalid_line("no JSON")
        assert isinstance(watching.step(), Pause)
        assert watching.step() == OpenWatch(str(version))


def test_expiry_in_the_middle_of_pages_lists_with_larger_ones_and_with_usual_ones_the_next_time() -> None:
    watching = machine()
    for limit in (10, 40, 160, 640):
        assert watching.step() == ListPage(limit)
        watching.on_page([pod("old", 1)], [], "5", "t")
        watching.on_error(Gone("token too old"))
        assert isinstance(watching.step(), Pause)
    assert watching.step() == ListPage(0)
    watching.on_page([pod("a", 6)], [], "7", "")
    assert watching.cache.get("d/old") is None
    watching.on_open()
    watching.on_event(WatchEventType.ADDED, pod("b", 8))
    watching.on_error(Gone("too old"))
    assert watching.step() == ListPage(10)


def test_what_a_later_list_changed_is_taken_by_the_portion_and_its_version_with_the_last() -> None:
    watching = machine(later_portion=2)
    watching.on_page([pod(name, at + 1) for at, name in enumerate("abcd")], [], "4", "")
    kept = watching.cache.get("d/a")
    watching.on_open()
    watching.on_error(Gone("too old"), 5.0)
    assert isinstance(watching.step(), Pause)
    assert watching.on_page([pod("a", 1), pod("b", 7)], [], "9", "t") == []
    assert not watching.is_reporting
    assert watching.on_page([pod("c", 8), pod("e", 9)], [], "9", "") == []
    told = []
    while watching.is_reporting:
        assert watching.cache.resource_version == "4"
        told.append(watching.next_portion())
    assert [[getattr(one, "key", "synced") for one in portion] for portion in told] == [
        ["d/d", "d/b"],
        ["d/c", "d/e", "synced"],
    ]
    assert watching.cache.resource_version == "9"
    assert watching.cache.get("d/a") is kept
    assert watching.next_portion() == []
    assert watching.step() == OpenWatch("9")


def test_a_later_list_without_a_difference_is_one_empty_portion() -> None:
    watching = machine(later_portion=2)
    watching.on_page([pod("a", 1)], [], "4", "")
    watching.on_error(Gone("too old"), 5.0)
    watching.on_page([pod("a", 1)], [], "9", "")
    assert [type(one).__name__ for one in watching.next_portion()] == ["Synced"]
    assert not watching.is_reporting


def test_lists_that_succeed_before_watches_that_fail_still_pause_longer_and_longer() -> None:
    watching = machine()
    pauses = []
    for _ in range(4):
        watching.on_page([], [], "5", "")
        assert watching.step() == OpenWatch("5")
        watching.on_error(Gone("too old"))
        pause = watching.step()
        assert isinstance(pause, Pause)
        pauses.append(pause.seconds)
        assert isinstance(watching.step(), ListPage)
    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_streaming_reports_nothing_before_its_bookmark() -> None:
    watching = machine(streaming=True)
    assert watching.step() == OpenWatch("", initial=True)
    watching.on_open()
    assert watching.on_event(WatchEventType.ADDED, pod("a", 7)) == []
    assert watching.on_event(WatchEventType.ADDED, pod("b", 3)) == []
    assert watching.on_event(WatchEventType.DELETED, pod("a", 8)) == []
    assert watching.on_bookmark("2", False) == []
    happened = watching.on_bookmark("9", True)
    assert [type(h).__name__ for h in happened] == ["Changed", "Synced"]
    watching.on_event(WatchEventType.ADDED, pod("c", 10))
    watching.on_end(5.0)
    assert watching.step() == OpenWatch("10")


def test_streaming_that_is_refused_is_not_tried_again() -> None:
    watching = machine(streaming=True)
    watching.on_error(Invalid("forbidden"))
    assert watching.step() == ListPage(10)


def test_streaming_that_is_cut_twice_is_given_up() -> None:
    watching = machine(streaming=True)
    for _ in range(2):
        assert watching.step() == OpenWatch("", initial=True)
        watching.on_open()
        watching.on_event(WatchEventType.ADDED, pod("a", 7))
        watching.on_end(1.0)
    assert watching.step() == ListPage(10)
    watching.on_page([], [], "8", "")
    assert len(watching.cache) == 0


def test_a_kind_that_is_not_there_counts_as_an_empty_list_once() -> None:
    watching = machine()
    assert watching.on_absent(15.0) == [Synced("Pod", "0", 0)]
    assert watching.synced
    assert watching.step() == Pause(15.0, "the server does not serve this kind", expected=True)
    assert watching.step() == ListPage(10)
    assert watching.on_absent(15.0) == []  # nothing is different
    assert isinstance(watching.step(), Pause)


def test_a_kind_that_appears_is_listed_and_watched() -> None:
    watching = machine()
    watching.on_absent(15.0)
    watching.step()
    assert watching.step() == ListPage(10)
    happened = watching.on_page([pod("a", 7)], [], "9", "")
    assert happened[-1] == Synced("Pod", "9", 1)
    assert watching.step() == OpenWatch("9")


def test_a_kind_that_goes_takes_its_objects_with_it() -> None:
    watching = listed()
    watching.on_open()
    watching.on_event(WatchEventType.ADDED, pod("a", 6))
    gone, synced = watching.on_absent(15.0)
    assert isinstance(gone, Changed)
    assert (gone.key, gone.new) == ("d/a", None)
    assert synced == Synced("Pod", "0", 0)
    watching.step()
    # made anew, it begins at another version: what comes is news however small its version is
    assert watching.step() == ListPage(10)
    added, _ = watching.on_page([pod("a", 2)], [], "3", "")
    assert isinstance(added, Changed)
    assert added.old is None
    assert watching.step() == OpenWatch("3")


def test_a_kind_that_goes_between_two_pages_leaves_nothing_of_the_first() -> None:
    watching = machine()
    watching.on_page([pod("a", 1)], [], "5", "t")
    assert watching.on_absent(15.0) == [Synced("Pod", "0", 0)]
    watching.step()
    assert watching.step() == ListPage(10)
    assert watching.on_page([], [], "6", "") == [Synced("Pod", "6", 0)]


def test_an_absent_kind_is_no_failure() -> None:
    watching = machine()
    watching.on_error(Unavailable("down"))
    watching.step()
    for _ in range(3):
        watching.on_absent(15.0)
        assert watching.step() == Pause(15.0, "the server does not serve this kind", expected=True)
    assert watching.counts.failures == 1
    watching.on_error(Unavailable("down"))
    assert watching.step() == Pause(0.5, "down")  # counted from the beginning


@pytest.mark.parametrize("streaming", [True, False])
def test_an_absent_kind_stops_no_streaming(streaming: bool) -> None:
    watching = machine(streaming=streaming)
    watching.on_absent(15.0)
    watching.step()
    assert watching.step() == (OpenWatch("", initial=True) if streaming else ListPage(10))
