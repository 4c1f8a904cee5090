"""Stages of the workflow and other commands, one file each.

Each file has a function `run`, which reads files, calls the method and writes files, and its `command`. Only stages and
`core` read or write artefacts. A stage, its rule and its command have the same name.
"""
