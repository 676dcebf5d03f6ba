"""Tuning of a policy's knobs against several objectives, with held-out seeds judged at the end.

Belongs here: ranges of knobs, objectives and their Pareto front, the search, the judgement on held-out seeds.
Not here: running and storing runs (`cotenant_lab/experiment.py`), the page (`cotenant_lab/report`), the format of
profile files (`policy/placement/profile_file.py`).
"""
