"""Answers by key, bounded in time and number."""

from __future__ import annotations

from cotenant.engine.fleet.answered import Answered


def test_the_last_answers_are_kept_for_a_while() -> None:
    answered: Answered[str] = Answered(max_kept=2, kept_s=10.0)
    for i in range(3):
        answered.put(f"key{i}", f"answer{i}", float(i))
    assert [answered.get(f"key{i}", 3.0) for i in range(3)] == [None, "answer1", "answer2"]
    assert answered.get("key2", 13.0) is None
    assert len(answered) == 0
