"""From pods and nodes as values to rows of arrays: the encoder, its growing columns, and the bits that stand for labels and taints.

Belongs here: what gives a value a row, a column or a bit. Not here: who is assigned where (engine/state), or any judgement.
"""
