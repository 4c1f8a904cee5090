"""The array artefacts that pass between stages: one layout each.

Samples are images (samples, channels, height, width) of unsigned bytes or tables (samples, features) of floats. A
label of −1 means "no answer", a vote of −1 that the teacher keeps silent.
"""

from patebench.core.files import Field, Layout

_X = Field("uf", ("samples", "..."))
_Y = Field("iu", ("samples",), low=0, below="classes")
_ROW = Field("iu", ("samples",), low=0)

#: Samples with labels: the private data, the public data before the split, the test set. `owner` numbers the person of
#: each record, where the data say so.
SAMPLES = Layout(
    "samples",
    {"x": _X, "y": _Y, "row": _ROW, "owner": Field("iu", ("samples",), low=0, optional=True)},
    ("dataset", "role", "classes", "class_names"),
)

#: The public pool that the student may see: samples without labels. `row` is the position in the public data.
POOL = Layout(
    "pool", {"x": _X, "row": _ROW}, ("dataset", "classes", "class_names", "seed", "split"), parents=("public",)
)

#: A vector for each sample of the pool, near those of samples like it; learnt without a label.
FEATURES = Layout(
    "features", {"vectors": Field("f", ("samples", "features"))}, ("pool", "encoder"), ("pool", "encoder")
)

#: The network that makes such vectors of samples of a shape: its weights in order, and what standardises a sample.
ENCODER = Layout(
    "encoder",
    {
        "weights": Field("f", ("weights",)),
        "mean": Field("f", ("inputs",)),
        "spread": Field("f", ("inputs",), low=0),
        "shape": Field("i", ("axes",), low=1),
    },
    ("pool",),
    parents=("pool",),
)

#: The true labels of the pool: only evaluation reads them, no student does.
TRUTH = Layout("truth", {"y": Field("iu", ("queries",), low=0, below="classes")}, ("pool", "classes"), ("pool",))

#: Teacher i owns the private samples `indices[offsets[i]:offsets[i + 1]]`. Those that are public too are nobody's.
PARTITION = Layout(
    "partition",
    {"indices": Field("iu", ("owned",), low=0, below="samples"), "offsets": Field("iu", ("bounds",), low=0)},
    ("private", "public", "samples", "left_out", "teachers", "strategy", "protects"),
    parents=("private", "public"),
)

_VOTES = Field("iu", ("teachers", "queries"), low=-1, below="classes")
#: None of teachers that vote on queries alone.
_TEST_VOTES = Field("iu", ("teachers", "test"), low=0, below="classes", optional=True)
#: For each temperature in the facts, the sum of the teachers' softened probabilities of the pool, for distillation.
_SOFT = Field("f", ("temperatures", "queries", "probabilities"), low=0, optional=True)

#: What each teacher says of the pool beyond its votes: probabilities, and hints of one of its layers.
_KNOWLEDGE = {
    "probabilities": Field("f", ("teachers", "queries", "probabilities"), low=0, optional=True),
    "hints": Field("f", ("teachers", "queries", "features"), optional=True),
}
#: Of which samples the votes are, as positions in the pool, where not of all in turn: queries selected beforehand.
_ASKED = Field("iu", ("queries",), low=0, optional=True)
_BALLOTS = {"votes": _VOTES, "queries": _ASKED, "test_votes": _TEST_VOTES, "soft": _SOFT}

#: What one job of teachers says: the numbers of the teachers and their votes on pool and test set.
CHUNK = Layout(
    "chunk",
    {"teachers": Field("iu", ("teachers",), low=0), **_BALLOTS, **_KNOWLEDGE},
    ("partition", "pool", "test", "classes", "model", "recipe", "training"),
    parents=("partition", "pool", "test"),
)

#: The whole ensemble's votes, teachers in order.
VOTES = Layout(
    "votes",
    _BALLOTS,
    ("partition", "pool", "test", "classes", "chunks"),
    parents=("partition", "pool", "test"),
)

#: What labels, and shares of votes, store of the partition behind the votes: the rule that dealt the records to the
#: teachers, with its public parameters, and what it protects, for machines and for people. They are None where votes
#: come without a partition. None of them depends on a private record, so a file that is published may store them.
PARTITION_FACTS = ("partition_rule", "protects", "protection")

#: What to do about damaged labels or shares, and about those without these facts: a release must not be deleted and
#: drawn a second time.
_AGAIN = (
    "if it is a release, put a good copy back, since drawing it again costs its privacy again; "
    "if it comes from a seed, delete the file and run snakemake again"
)
_OLDER = "an older version wrote it: use a release with the version that drew it, and make anything from a seed again"

#: Released labels in query order; with local mechanisms also all that each teacher sent. `queries` are positions in the
#: pool; without it they are the first ones, in order. `kept` says which labels are the student's own: it kept
#: them where the teachers gave no answer. `noisy_counts` are all that is released where labels are only read from them.
#: `teachers` is the number of teachers in the release; on the secure path, `ensemble` is the number of all teachers.
LABELS = Layout(
    "labels",
    {
        "labels": Field("i", ("queries",), low=-1, below="classes"),
        "reports": Field("i", ("teachers", "queries"), low=-1, below="classes", optional=True),
        "queries": Field("iu", ("queries",), low=0, optional=True),
        "kept": Field("b", ("queries",), optional=True),
        "noisy_counts": Field("if", ("queries", "columns"), optional=True),
    },
    (
        *("votes", "pool", "classes", "mechanism", "parameters", "mode", "rounds"),
        *("teachers", "abstentions", *PARTITION_FACTS),
    ),
    parents=("pool",),
    older=_OLDER,
    again=_AGAIN,
)

#: Which of the ensemble's teachers it is made of.
_SENDERS = Field("iu", ("teachers",), low=0, below="ensemble")

#: What all files of one secure release store.
_OF_SHARES = (
    *("pool", "classes", "mechanism", "parameters", "mode", "ensemble", "aggregators"),
    *("abstentions", *PARTITION_FACTS),
)

#: What one aggregator gets of a chunk of teachers: words modulo 2⁶⁴ that alone tell nothing. `session` names the cut.
SHARES = Layout(
    "shares",
    {"shares": Field("u", ("teachers", "queries", "classes")), "teachers": _SENDERS, "queries": _ASKED},
    (*_OF_SHARES, "aggregator", "session"),
    older=_OLDER,
    again=_AGAIN,
)

#: What one aggregator publishes: its sum modulo 2⁶⁴, and whose shares are in it.
SHARE_SUM = Layout(
    "share-sum",
    {"sum": Field("u", ("queries", "classes")), "teachers": _SENDERS, "queries": _ASKED},
    (*_OF_SHARES, "aggregator", "sessions"),
    older=_OLDER,
    again=_AGAIN,
)

#: What all sums together reveal: counts with the noise of every teacher that sent shares.
NOISY_COUNTS = Layout(
    "noisy-counts",
    {"counts": Field("i", ("queries", "classes")), "teachers": _SENDERS, "queries": _ASKED},
    _OF_SHARES,
    older=_OLDER,
    again=_AGAIN,
)


#: What one round queries: positions in the pool, and the student's predictions for them, if there is a student yet.
QUERIES = Layout(
    "queries",
    {
        "queries": Field("iu", ("queries",), low=0),
        "predictions": Field("f", ("queries", "classes"), low=0, optional=True),
    },
    ("pool", "classes", "strategy", "student", "labels", "predictions", "features"),
    parents=("pool",),
)

#: A student's predictions for every sample of the pool: the probability of each class.
PREDICTIONS = Layout(
    "predictions",
    {"probabilities": Field("f", ("samples", "classes"), low=0)},
    ("pool", "labels", "classes"),
    parents=("pool", "labels"),
)

#: All of them by kind.
LAYOUTS = {
    layout.kind: layout
    for layout in (
        *(SAMPLES, POOL, FEATURES, ENCODER, TRUTH, PARTITION, CHUNK, VOTES, LABELS),
        *(SHARES, SHARE_SUM, NOISY_COUNTS, QUERIES, PREDICTIONS),
    )
}
