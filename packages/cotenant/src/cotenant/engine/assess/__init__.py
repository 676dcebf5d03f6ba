"""What the policies that run live would have done, had they run over a recorded history.

Belongs here: replays of policies of several folders over a history. Not here: predictions of the next day and their
test (policy/assess), and the policies themselves.
"""
