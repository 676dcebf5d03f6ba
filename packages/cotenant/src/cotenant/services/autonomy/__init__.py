"""What a person asks of the cluster's Autonomy objects.

Belongs here: listing them, freezing and thawing. Not here: what movers do by them (engine/autonomy, the processes).
"""
