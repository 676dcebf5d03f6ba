from cotenant_local.controllers.runtime.queue import LAST_BACKOFF_S, WorkQueue


def test_a_key_is_queued_once_however_often_it_is_added() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(5):
        queue.add("a")
    queue.add("b")
    assert (queue.take(0), queue.take(0), queue.take(0)) == ("a", "b", None)


def test_a_key_being_processed_is_not_returned_until_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert queue.take(0) == "a"
    queue.add("a")
    assert queue.take(0) is None
    queue.done("a")
    assert queue.take(0) == "a"


def test_delayed_keys_become_ready_at_the_earliest_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", 10)
    queue.add_at("a", 5)
    queue.add_at("a", 7)
    assert queue.next_at() == 5
    assert queue.take(4.9) is None
    assert queue.take(5) == "a"
    queue.done("a")
    assert queue.next_at() is None
    assert queue.take(100) is None


def test_failures_back_off_exponentially_and_success_resets_them() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = [queue.failed("a", 0) for _ in range(30)]
    assert delays[0] < delays[1] < delays[2]
    assert delays[-1] == LAST_BACKOFF_S
    queue.succeeded("a")
    assert queue.failed("a", 0) == delays[0]
    assert queue.failed("b", 0, 9.0) == 9.0


def test_an_expensive_key_cools_down_before_it_is_processed_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.take(0)
    queue.add("a")  # an event while it is being processed
    queue.done("a", 3.0)
    assert queue.take(2.9) is None
    assert queue.take(3.0) == "a"
    queue.done("a", 9.0)
    queue.add("a")
    assert queue.take(8.0) is None
    assert queue.take(9.5) == "a"


def test_a_cool_down_expires() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.take(0)
    queue.done("a", 3.0)
    assert queue.take(4.0) is None
    queue.add("a")
    assert queue.take(4.0) == "a"
