"""Placement: filters, scores, queue orders and the profiles that combine them, as pure functions over arrays.

Belongs here: row-local rules in this folder and in filters/ and scores/; rules over several nodes in topology/;
resources with their own accounting in cpus/, devices/, gangs/, reservations/, load_aware/, gpu/. Not here: cluster
state and the scheduling cycle (engine).
"""
