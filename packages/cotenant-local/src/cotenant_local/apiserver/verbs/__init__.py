"""The verbs of the API, in process: get, list, watch, create, update, patch, delete, with the checks that hold for
every kind.

Object metadata, names, deletion and list continuation belong here. Not here: rules of one kind (`kinds`), patch formats
(`patching`), URLs and bodies (`http`).
"""
