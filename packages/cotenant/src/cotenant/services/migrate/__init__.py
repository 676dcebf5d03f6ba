"""What an installation of another co-location system becomes here: `cotenant migrate`.

Belongs here: reading what is installed, judging it piece by piece, the files of the equal set-up. Not here: the rules
by which our processes read the same objects (`policy`, `services/scheduling`), printing (`cli/cluster`).
"""
