"""Values: what the objects of the domain are, and the arrays that hold them. The lowest floor; it imports nothing of
the other floors.

Belongs here: frozen values, their parsing and formatting, array layouts. Not here: decisions (policy), state over time
(engine), input and output.
"""
