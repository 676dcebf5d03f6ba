"""Mutation tests: would a test fail if this line were wrong?

    python -m tools.mutation --sample 200 --seed 1 --state FILE --minutes 30        (`--help` tells the rest)

Said again, it goes on with what is left of the sample; it tells its rate with an interval.

Belongs here: the changes that are tried (`operators`), the tests that could notice one (`distance`, `reach`), one trial
(`trials`, `warm`), what became of each so far (`kept`), those judged by hand to make no difference (`judged`) and the
command (`__main__`). mutmut and cosmic-ray were tried: the first rewrites every function into a trampoline, which Numba
cannot compile, the second runs the whole suite for each change.
"""
