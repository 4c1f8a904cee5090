"""The environment variables that commands read, besides their options."""

#: The folder of downloaded data sets, in place of `data_root` of a configuration.
DATA = "PATEBENCH_DATA"

#: What all releases from one private data set may cost together, and the name of that data, by the parameter's name.
LEDGER = {
    "budget": "PATEBENCH_LEDGER_BUDGET",
    "delta": "PATEBENCH_LEDGER_DELTA",
    "private": "PATEBENCH_LEDGER_PRIVATE",
}
