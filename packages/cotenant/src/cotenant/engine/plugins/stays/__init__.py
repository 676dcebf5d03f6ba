"""Batch pods go where what is lent holds for as long as their owner's pods stay.

Belongs here: stays by owner, and requests against what nodes lend for longer. Not here: what holds (engine/manager
writes it on the node), and room by predicted use (engine/rules/use).
"""
