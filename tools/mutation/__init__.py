"""Mutation tests: would a test fail if this line were wrong?

    python -m tools.mutation --sample 200 --seed 1        (`--help` tells the rest)

Belongs here: the changes that are tried (`operators`), the tests that could notice one (`distance`, `reach`), one trial
(`trials`, `warm`) and the command (`__main__`). mutmut and cosmic-ray were tried: the first rewrites every function
into a trampoline, which Numba cannot compile, the second runs the whole suite for each change.
"""
