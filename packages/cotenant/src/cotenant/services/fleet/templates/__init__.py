"""Templates of groups as people write them: the notes' yml and compose files, read by one reader into
`model/fleet/template.py`.

Belongs here: keys, their forms and their refusals; a key that is not supported is named, never ignored. Not here: what
a group then does.
"""
