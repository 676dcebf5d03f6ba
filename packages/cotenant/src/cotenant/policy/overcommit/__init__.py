"""What may be lent on a node: batch and mid resources, the strategy that sets them, NodeSLO, amplification, and
predicted use.

Belongs here: amounts with their terms, predictors of use, and the settings of both. Not here: when and how amounts
reach a node (engine/manager), and placement by predicted use (policy/placement).
"""
