"""Leaderboard of methods, by data set and ε; the ε of an entry is recomputed from the parameters of its mechanism.

The module `entry` defines the format of an entry. `assessment` checks entries. `collection` reads the entries written
by hand, and derives entries from runs and from published values.
"""
