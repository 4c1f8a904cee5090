"""Teachers: one learner per shard, trained in chunks, asked for their votes, joined into one vote matrix."""
