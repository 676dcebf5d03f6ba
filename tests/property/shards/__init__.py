"""Shards of a scheduler in a simulated cluster with deaths, pauses, late messages and lost answers.

`python -m tests.property.shards 5000` tries so many seeds.
"""
