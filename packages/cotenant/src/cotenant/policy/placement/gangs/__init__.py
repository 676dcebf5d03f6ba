"""Gangs as pure rules: their specification, bundles, admission, phases, deadlocks, and domains that have room for all
members.

Belongs here: functions over specifications and counts. Not here: gangs of a cluster over time (engine/plugins/gangs),
or their API objects (drivers/kube/kinds).
"""
