"""Properties do not depend on the speed of the machine: a first example may compile a kernel, and a shared machine
may be busy.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_examples_have_no_deadline_and_may_be_slow_to_make() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
