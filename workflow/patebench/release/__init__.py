"""Releases of labels: their conditions, and the ledger of all draws from one private data set.

Stages call this package before they draw noise. Votes, labels and mechanisms are passed as values; the package reads
and writes only ledgers.
"""
