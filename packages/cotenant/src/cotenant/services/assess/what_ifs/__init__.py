"""What-ifs on a copy: reading them, changing the copy, letting the engine place what lost its place, and comparing.

Belongs here: what needs the copy's objects and the engine. Not here: contention, which needs the lab's world
(`cotenant_lab`).
"""
