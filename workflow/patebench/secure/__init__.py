"""Compute noisy counts by secure aggregation, without revealing a vote.

Every teacher splits its votes plus its share of the noise into additive shares modulo 2⁶⁴, one for each aggregator.
Votes are one-hot or have weights. Each aggregator publishes the sum of its shares; these sums add up to the noisy
counts. The shares of any k − 1 of the k aggregators are jointly uniform and independent of the votes, so these
aggregators learn only the published sums. All parties are assumed to follow the protocol: a malicious teacher can
corrupt counts, and all k aggregators together can reconstruct every teacher's noisy vote.
"""
