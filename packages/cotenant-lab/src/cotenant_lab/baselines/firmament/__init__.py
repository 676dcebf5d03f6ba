"""Firmament (Gog et al., OSDI 2016) on Quincy's flow networks (Isard et al., SOSP 2009): placement as min-cost flow.

Belongs here: the network, its classes, the cost models and the rounds. Not here: rules shared with other rivals
(baselines/fitting.py, rounds.py).
"""
