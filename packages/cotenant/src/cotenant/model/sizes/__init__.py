"""Sizes of containers: what is requested and allowed, what the programs in them were told, and what is recommended.

Belongs here: values that readers, policies and commands exchange about requests and limits. Not here: sums over pods
(model/resources), use over time (model/assess).
"""
