"""Implement the stages of the workflow and the other commands, one file per command.

Most files contain a function `run`, which reads files, calls a method and writes files, and the click command
`command`, which calls `run`. Only `stages`, `artefacts`, `release` and `core` read or write artefacts. A stage, its
Snakemake rule and its command have the same name.
"""
