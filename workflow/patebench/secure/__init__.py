"""Secure aggregation: noisy counts without anybody seeing a vote.

Every teacher cuts its one-hot votes, with its share of the noise added, into additive shares modulo 2⁶⁴, one for each
aggregator. Each aggregator sums what it got and publishes the sum; the sums add up to the noisy counts. Any k − 1 of
the k aggregators hold words that were drawn before the votes were looked at, so they learn nothing but what is
published. All parties are taken to follow the protocol: a teacher that lies can spoil counts, and k aggregators who
put their shares together see every teacher's noisy vote.

`shares.py` is the arithmetic, `party.py` what every party knows.
"""
