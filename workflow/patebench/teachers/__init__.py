"""Teachers: one learner per shard, trained in chunks, queried for their votes, and joined into one vote matrix."""
