"""Placement of batch and mid pods by predicted use, beside their requests of lent resources.

Belongs here: what the pods of each node are predicted to use, kept up to date. Not here: the prediction of one pod
(policy/overcommit/predicted_use.py), load thresholds (rules/load).
"""
