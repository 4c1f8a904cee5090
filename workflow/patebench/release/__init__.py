"""Check the conditions of a release of labels, and keep the ledger of all draws from one private data set.

Stages call this package before they draw noise. The stages read the files of votes and labels, and pass their content
as arguments. The package itself reads and writes only ledgers.
"""
