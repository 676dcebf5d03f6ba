"""What single views of the page show: moves, profiles, credit, zones, one node, one service, results of the lab.

Belongs here: reading what one view needs, and its answer as structures. Not here: the machine map and its changes,
log-in and the server (services/console).
"""
