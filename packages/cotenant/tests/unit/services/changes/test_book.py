"""Changes that run on while nobody waits."""

from __future__ import annotations

import asyncio

import pytest

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.services.changes.book import MAX_AT_ONCE, MAX_KEPT, MAX_LINES, MAX_WAIT_S, ChangeBook, Say


def test_a_change_tells_its_lines_and_its_end_to_who_waits() -> None:
    async def play() -> None:
        book, going = ChangeBook(now=lambda: 5.0), asyncio.Event()

        async def work(say: Say) -> str:
            say("first")
            await going.wait()
            say("second")
            return "it broke"

        name = book.begin("release a", "upgrade of a", work, "alice")
        begun = await book.report(name, wait_s=5.0)
        assert (begun.what, begun.lines, begun.is_done, begun.failure) == ("upgrade of a", ("first",), False, "")
        going.set()
        ended = await book.report(name, start=1, wait_s=5.0)
        while not ended.is_done:
            ended = await book.report(name, start=1)
            await asyncio.sleep(0)
        assert (ended.start, ended.lines, ended.is_done, ended.failure) == (1, ("second",), True, "it broke")
        assert (await book.report(name, start=9, wait_s=1.0)).lines == ()

    asyncio.run(play())


def test_an_object_has_one_change_at_a_time_and_a_process_a_few() -> None:
    async def play() -> None:
        book = ChangeBook()

        async def forever(_: Say) -> str:
            await asyncio.Event().wait()
            return ""

        first = book.begin("release 0", "stop of 0", forever)
        with pytest.raises(Permanent, match="release 0 is being changed: stop of 0"):
            book.begin("release 0", "start of 0", forever)
        for k in range(1, MAX_AT_ONCE):
            book.begin(f"release {k}", "stop", forever)
        with pytest.raises(Transient, match=f"{MAX_AT_ONCE} changes are under way"):
            book.begin("release x", "stop", forever)
        await asyncio.sleep(0)
        await book.close()
        assert (await book.report(first)).failure == "the process that made it was ended"

    asyncio.run(play())


def test_what_fails_is_told_and_a_defect_tells_no_secret() -> None:
    async def play() -> None:
        book = ChangeBook()

        async def refused(_: Say) -> str:
            raise Permanent("Nova refuses")

        async def broken(say: Say) -> str:
            for k in range(MAX_LINES + 5):
                say(str(k))
            raise ValueError("secret")

        names = [book.begin(f"release {k}", "stop", work) for k, work in enumerate((refused, broken))]
        await asyncio.sleep(0)
        assert (await book.report(names[0])).failure == "Nova refuses"
        defect = await book.report(names[1])
        assert "secret" not in defect.failure
        assert len(defect.lines) == MAX_LINES

    asyncio.run(play())


def test_old_changes_are_forgotten_and_wrong_questions_named() -> None:
    async def play() -> None:
        book = ChangeBook()

        async def nothing(_: Say) -> str:
            return ""

        names = []
        for k in range(MAX_KEPT + 3):
            names.append(book.begin(f"release {k}", "stop", nothing))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert (await book.report(names[-1])).is_done
        with pytest.raises(InvalidInput, match="a change of this process"):
            await book.report(names[0])
        for wrong in ({"wait_s": MAX_WAIT_S + 1}, {"start": -1}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                await book.report(names[-1], **wrong)  # type: ignore[arg-type]

    asyncio.run(play())
