"""Run every conformance case found in the folder given by COTENANT_CONFORMANCE, one test per case.

A file there is a JSON object with `cases`: a list of {"name", "kind", "input", "expect"}; one without `cases` is data
that cases refer to. The kinds are defined in `kinds/`: each module there has `KINDS`, a mapping from a kind's name to a
function that takes a `Case` and yields (key, wanted, got) for everything it can compare. A key is one of `expect`, or
begins with one and a dot or bracket; what the case does not expect is passed over. Every key of `expect` must be
compared, except those ending in `_derived`, which upstream did not assert, and every key of `input` must be read
(`reading.py`).
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conformance.reading import Unreadable, recorded, unread

from cotenant.model.errors import InvalidInput

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parent.parent
FOLDER = Path(os.environ.get("COTENANT_CONFORMANCE") or _REPOSITORY.parent / "shared" / "conformance")


class Case(NamedTuple):
    file: str
    name: str
    kind: str
    given: dict[str, Any]
    expect: dict[str, Any]
    folder: Path  # folder of data shared by several cases
    upstream_defect: bool = False  # `expect` is then what would be better, where the case says so


# Kinds of behaviour that is not built: off by default upstream, and said in docs/guide/webhook.md.
NOT_BUILT = {
    "binding_admission": "a ValidatingAdmissionPolicy restricts who binds; upstream compares parts of user names",
    "required_labels": "a ValidatingAdmissionPolicy requires labels",
    "existing_pod": "profiles act at creation only",
    "existing_pods_selected": "profiles act at creation only",
}

Check = Callable[[Case], Iterator[tuple[str, Any, Any]]]


def load_kinds(folder: Path) -> dict[str, Check]:
    """Every kind declared by a module of this folder."""
    found: dict[str, Check] = {}
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"conformance_kinds_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for kind, check in module.KINDS.items():
            assert kind not in found, f"{path.name} declares the kind {kind!r} a second time"
            found[kind] = check
    return found


def read_cases(path: Path) -> list[Case]:
    """The cases of one file; raises ValueError if it is malformed."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    cases = []
    names = set()
    for entry in document.get("cases", ()):
        missing = {"name", "kind", "input", "expect"} - set(entry)
        if missing:
            raise ValueError(f"case {entry.get('name', '?')!r} lacks {', '.join(sorted(missing))}")
        if entry["name"] in names:
            raise ValueError(f"the name {entry['name']!r} comes twice")
        names.add(entry["name"])
        expect = entry.get("expect_better", entry["expect"])  # upstream's own answer is a defect there
        cases.append(
            Case(path.name, entry["name"], entry["kind"], entry["input"], expect, path.parent, "expect_better" in entry)
        )
    return cases


def compare(case: Case, check: Check) -> None:
    """Fail on the first difference, on an asserted key that was never compared, and on a part of the input that was
    never read.
    """
    where, given, compared = f"{case.file}::{case.name}", recorded(case.given), set()
    case = case._replace(given=given, expect=recorded(case.expect))
    try:
        for key, wanted, got in check(case):
            if not case.expect.keys() & {key, key.split(".")[0], key.split("[")[0]}:
                continue  # the case does not ask
            compared.add(key)
            assert got == wanted, f"{where}: {key}: expected {wanted!r}, got {got!r}"
    except Unreadable as error:
        raise AssertionError(f"{where}: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError, InvalidInput) as error:
        raise AssertionError(f"{where}: cannot be read near {given.last[0]!r}: {error!r}") from error
    for key in case.expect:
        if not key.endswith("_derived"):
            assert any(seen == key or seen.startswith((f"{key}.", f"{key}[")) for seen in compared), (
                f"{where}: nothing was compared with {key!r}"
            )
    assert compared, f"{where}: nothing was compared"
    left = unread(given)
    assert not left, f"{where}: not read: {', '.join(left)}"


def _parameters() -> Iterator[Any]:
    files = sorted(FOLDER.glob("*.json")) if FOLDER.is_dir() else []
    if not files:
        reason = (
            f"no conformance cases in {os.path.relpath(FOLDER, _REPOSITORY)}; name their folder in COTENANT_CONFORMANCE"
        )
        yield pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-cases")
        return
    kinds = load_kinds(_HERE / "kinds")
    unknown: dict[str, list[Case]] = {}
    for path in files:
        try:
            cases = read_cases(path)
        except ValueError as error:
            yield pytest.param(f"{path.name}: {error}", id=f"{path.name}::unreadable")
            continue
        for case in cases:
            if case.kind in kinds:
                yield pytest.param((case, kinds[case.kind]), id=f"{case.file}::{case.name}")
            else:
                unknown.setdefault(case.kind, []).append(case)
    for kind, cases in sorted(unknown.items()):
        where = ", ".join(sorted({case.file for case in cases}))
        lack = f"the kind {kind!r} is not built ({NOT_BUILT[kind]})" if kind in NOT_BUILT else ""
        reason = f"{lack or f'no function for the kind {kind!r} yet'}: {len(cases)} cases in {where}"
        yield pytest.param(None, marks=pytest.mark.skip(reason=reason), id=f"kind::{kind}")


@pytest.mark.parametrize("item", list(_parameters()))
def test_case(item: tuple[Case, Check] | str) -> None:
    if isinstance(item, str):
        pytest.fail(item)
    compare(*item)
