"""Teachers: one learner per shard, trained in chunks; their votes on the queries are joined into one matrix."""
