"""What a person asks of sizes, moves, lending and the cluster's Autonomy objects, by a command or the console.

Belongs here: listing what was suggested and done, approvals, undos, freezing and thawing. Not here: what movers do by
them (engine/autonomy, the processes).
"""
