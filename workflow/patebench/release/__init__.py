"""Check the conditions of a release of labels, and keep the ledger of all draws from one private data set.

Stages call this package before they draw noise. They pass votes, labels and mechanisms as values. The package reads and
writes only ledgers.
"""
