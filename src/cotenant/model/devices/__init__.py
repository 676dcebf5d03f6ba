"""Devices that are given out in parts: what a node has, what a pod asks, what it was given.

Belongs here: values of devices. Not here: choosing devices (policy/placement/devices).
"""
