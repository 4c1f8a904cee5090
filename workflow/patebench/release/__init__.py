"""Labels that are released: their conditions, and the ledger of all draws from one private data set.

Stages call it before they draw. Votes, labels and mechanisms come in as values; it reads and writes ledgers alone.
"""
