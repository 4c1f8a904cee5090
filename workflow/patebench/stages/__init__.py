"""Implement the stages of the workflow and the other commands, one file each.

Each file has a function `run`, which reads files, calls a method and writes files, and the `command` made from it. Only
stages and `core` read or write artefacts. A stage, its rule and its command have the same name.
"""
