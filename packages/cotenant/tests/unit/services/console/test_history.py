"""The last hour in sums: what the curves show."""

from cotenant.services.console.fleet import Totals
from cotenant.services.console.history import History


def test_requested_includes_what_is_requested_of_lent_cpu_as_the_clusters_bar_does() -> None:
    history = History()
    history.add(60.0, Totals(cpu_m=1000, requested_m=400, lent_requested_m=300))
    history.add(70.0, Totals(cpu_m=1000, requested_m=400, lent_requested_m=300, used_m=250))
    curves = history.curves()
    assert curves["at"] == [60.0, 70.0]
    assert curves["requested"] == [0.7, 0.7]
    assert curves["lent"] == [0.3, 0.3]
    assert curves["used"] == [None, 0.25]
