"""What a run makes: the parameters of the stages, the table of stages, and the union of experiments."""
