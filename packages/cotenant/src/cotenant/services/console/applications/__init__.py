"""The view "Applications": releases and virtual machines, and the buttons that change them.

Belongs here: answers and changes of the page's own. Not here: how a change is made and followed (services/changes).
"""
