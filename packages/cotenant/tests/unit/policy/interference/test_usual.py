from __future__ import annotations

from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.series import SampleSlice, VictimSample
from cotenant.policy.interference.settings import InterferenceSettings, VictimSignal
from cotenant.policy.interference.usual import MAX_JOBS, Usual, UsualValues, learn

SETTINGS = InterferenceSettings(usual_samples=4, refresh_us=1000)


def sample(level: int, uid: str = "u", job: str = "ns/j", cpu_m: int = 500, throttled: int = 0) -> VictimSample:
    return VictimSample(uid, job, level, cpu_m, throttled)


def learned(
    levels: list[int], settings: InterferenceSettings = SETTINGS, book: UsualValues | None = None, at: int = 0
) -> UsualValues:
    book = book or UsualValues()
    for level in levels:
        book = learn(book, SampleSlice(at, (sample(level),), ()), settings)
    return book


def test_mean_and_deviation_stand_once_there_are_enough_samples() -> None:
    assert learned([100, 300, 100]).of("ns/j") is None
    assert learned([100, 300, 100, 300]).of("ns/j") == Usual(200, 100)


def test_the_threshold_is_the_mean_plus_two_deviations() -> None:
    assert Usual(200_000, 100_000).threshold_ppm(InterferenceSettings()) == 400_000


def test_a_service_that_hardly_ever_waits_has_a_threshold_all_the_same() -> None:
    assert Usual(10, 0).threshold_ppm(InterferenceSettings(victim_signal=VictimSignal.CPI)) == 10
    assert Usual(10, 0).threshold_ppm(InterferenceSettings(victim_signal=VictimSignal.RUN_DELAY)) == 100_000
    assert Usual(10, 0).threshold_ppm(InterferenceSettings(victim_signal=VictimSignal.LATENCY)) == PPM
    assert Usual(10, 0).threshold_ppm(InterferenceSettings(min_threshold_ppm=7)) == 10


def test_values_stay_until_they_are_refreshed() -> None:
    book = learned([100, 300, 100, 300])
    assert learned([9000] * 4, book=book).of("ns/j") == Usual(200, 100)


def test_an_older_day_weighs_nine_tenths() -> None:
    book = learned([100] * 10)
    book = learned([100], book=book, at=1000)  # a new day: eleven samples before
    book = learned([200] * 9, book=book, at=1500)
    book = learned([200], book=book, at=2000)
    # 9 samples' weight of 100 before (11 x 0.9, rounded down), 10 of 200 since
    usual = book.of("ns/j")
    assert usual is not None
    assert usual.mean_ppm == (990 + 2000) // 19


def test_samples_that_say_nothing_are_not_learned_from() -> None:
    book = UsualValues()
    for _ in range(10):
        idle, throttled = sample(100, cpu_m=100), sample(100, throttled=200_000)
        book = learn(book, SampleSlice(0, (idle, throttled), ()), SETTINGS)
    assert book.jobs == ()


def test_as_many_tasks_as_asked_for_are_needed() -> None:
    both = InterferenceSettings(usual_samples=2, usual_tasks=2)
    book = UsualValues()
    for uid in ("a", "a", "a", "b"):
        book = learn(book, SampleSlice(0, (sample(100, uid),), ()), both)
    assert book.of("ns/j") is None
    assert learn(book, SampleSlice(0, (sample(100, "b"),), ()), both).of("ns/j") == Usual(100, 0)


def test_services_not_seen_for_longest_are_forgotten_first() -> None:
    book = learn(UsualValues(), SampleSlice(0, (sample(1, job="old"),), ()), SETTINGS)
    for number in range(MAX_JOBS):
        book = learn(book, SampleSlice(1 + number, (sample(1, job=f"new-{number:03}"),), ()), SETTINGS)
    assert len(book.jobs) == MAX_JOBS
    assert "old" not in {job.name for job in book.jobs}
