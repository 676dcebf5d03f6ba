"""Prediction of the use of pods from requests, estimates and measurements.

Belongs here: what may be lent without overfilling nodes. Not here: placement by predicted use (policy/placement).
"""
