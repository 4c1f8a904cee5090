"""The environment variables by which a workflow tells its jobs what is no parameter of theirs."""

#: What all releases from one private data set may cost together, and the name of that data, by the parameter's name.
LEDGER = {
    "budget": "PATEBENCH_LEDGER_BUDGET",
    "delta": "PATEBENCH_LEDGER_DELTA",
    "private": "PATEBENCH_LEDGER_PRIVATE",
}
