"""Implement the stages of the workflow and the other commands, one file per command.

Most files contain a function `run`, which reads files, calls a method and writes files, and the click command
`command`, which calls `run`. A stage, its Snakemake rule and its command have the same name. Artefacts are the files
that stages write; only the packages `stages`, `artefacts`, `release` and `core` read or write them.
"""
