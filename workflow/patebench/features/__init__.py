"""Features of public data: encoders, clusters and neighbours."""
