"""Stages: one file for each, with `run`, which reads files, calls the method and writes files, and its `command`.

Only stages and `core` read or write artefacts. The files are named as the stages, rules and commands are; four commands
beside the workflow lie here too: `epsilon`, `calibrate`, `check` and `config`.
"""
