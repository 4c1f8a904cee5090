"""The points of the headline figure: one per method and kind of ε, and what papers print."""

from patebench.reporting.per_method import methods
from patebench.reporting.tables.table import Column, Table

TABLE = Table(
    title="One point per method",
    columns=(
        Column("dataset", "Data set"),
        Column("method", "Method"),
        Column("accuracy", "Accuracy %", "percent", deviation=True),
        Column("epsilon", "ε", "epsilon"),
        Column("kind", "Kind of ε"),
        Column("adjacency", "Protects"),
        Column("delta", "δ", "number"),
        Column("detail", "Setting"),
        Column("paper", "Paper"),
        Column("public_use", "used for", group="Public data"),
        Column("public_samples", "samples", "count", group="Public data"),
        Column("seeds", "Seeds", "count"),
    ),
    build=methods,
    folded=True,
)
