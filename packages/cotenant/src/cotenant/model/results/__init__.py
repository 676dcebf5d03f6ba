"""Results of the lab as files: what a program that shows them must know. The lab (cotenant-lab) writes by this
contract, the console reads by it.

Belongs here: the files' names and forms, and the answers that are drawn from them, in the console and in a static
report. Not here: running experiments, their statistics, and the definitions of figures (cotenant-lab).
"""
