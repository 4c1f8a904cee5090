"""Leaderboard: one entry per method, data set and ε, with the ε that the accountants compute from its parameters.

`entry` is the format of an entry, `assessment` its check, and `collection` reads and derives all entries.
"""
