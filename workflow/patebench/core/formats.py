"""Layouts of the array artefacts that stages exchange.

Samples are images (samples, channels, height, width) of unsigned bytes or tables (samples, features) of floats. A
label of −1 means "no answer"; a vote of −1 means that the teacher abstains.
"""

from functools import partial

from patebench.core.files import Field, Layout

_X = Field("uf", ("samples", "..."))
_Y = Field("iu", ("samples",), low=0, below="classes")
_ROW = Field("iu", ("samples",), low=0)

#: Images from which the features `x` were computed, for students that learn from public images.
_IMAGES = Field("u", ("samples", "channels", "height", "width"), optional=True)

#: Labelled samples: the private data, the public data before the split, the test set. `owner` is the number of the
#: person to whom each record belongs, if known. The entry `own_rows` in the metadata of private data is True if each
#: `row` identifies one record. Otherwise rows are positions, which change if another record is removed.
SAMPLES = Layout(
    "samples",
    {"x": _X, "y": _Y, "row": _ROW, "owner": Field("iu", ("samples",), low=0, optional=True), "images": _IMAGES},
    ("dataset", "role", "classes", "class_names"),
)

#: The public pool that the student may see: samples without labels. `row` is the position in the public data.
POOL = Layout(
    "pool",
    {"x": _X, "row": _ROW, "images": _IMAGES},
    ("dataset", "classes", "class_names", "seed", "split"),
    parents=("public",),
)

#: A feature vector for each sample of the pool, learnt without labels; similar samples have close vectors.
FEATURES = Layout(
    "features", {"vectors": Field("f", ("samples", "features"))}, ("pool", "encoder"), ("pool", "encoder")
)

#: The network that computes features of samples of one `shape`: `weights` in order, `mean` and standard deviation
#: (`spread`) of the inputs. `network` contains the bytes of the file if the network is the user's own.
ENCODER = Layout(
    "encoder",
    {
        "weights": Field("f", ("weights",)),
        "mean": Field("f", ("inputs",)),
        "spread": Field("f", ("inputs",), low=0),
        "shape": Field("i", ("axes",), low=1),
        "network": Field("u", ("bytes",), optional=True),
    },
    ("pool",),
    parents=("pool",),
)

#: The true labels of the pool, for evaluation only; no student reads them.
TRUTH = Layout("truth", {"y": Field("iu", ("queries",), low=0, below="classes")}, ("pool", "classes"), ("pool",))

#: Teacher i owns the private samples `indices[offsets[i]:offsets[i + 1]]`. Private samples that are also public belong
#: to no teacher.
PARTITION = Layout(
    "partition",
    {"indices": Field("iu", ("owned",), low=0, below="samples"), "offsets": Field("iu", ("bounds",), low=0)},
    ("private", "public", "samples", "left_out", "teachers", "strategy", "protects"),
    parents=("private", "public"),
)

#: One vote per teacher and query. Weighted votes are stored in `WEIGHTS` instead; a row has one label and one teacher.
_VOTES = Field("iu", ("teachers", "queries"), low=-1, below="classes", optional=True)
WEIGHTS = {
    "weights": Field("i", ("rows", "queries"), optional=True),
    "row_labels": Field("iu", ("rows",), low=0, below="classes", optional=True),
    "row_teachers": Field("iu", ("rows",), low=0, optional=True),
}
#: Votes on the test set; missing if teachers vote only on queries.
_TEST_VOTES = Field("iu", ("teachers", "test"), low=0, below="classes", optional=True)
#: Sum of the teachers' softened probabilities on the pool for each temperature in the facts, for distillation.
_SOFT = Field("f", ("temperatures", "queries", "probabilities"), low=0, optional=True)

#: Outputs of each teacher on the pool besides votes: probabilities, and activations (hints) of one layer.
_KNOWLEDGE = {
    "probabilities": Field("f", ("teachers", "queries", "probabilities"), low=0, optional=True),
    "hints": Field("f", ("teachers", "queries", "features"), optional=True),
}
#: Positions of the queries in the pool. The array is missing if all samples of the pool are queries, in order.
_ASKED = Field("iu", ("queries",), low=0, optional=True)
_BALLOTS = {"votes": _VOTES, **WEIGHTS, "queries": _ASKED, "test_votes": _TEST_VOTES, "soft": _SOFT}

#: Output of one training job: the numbers of its teachers, and the votes of these teachers on pool and test set.
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

#: Facts of the partition that files of labels and of shares of votes store: the rule that assigns records to teachers,
#: with its public parameters, and the changes of the data that alter one shard at most, as names and as text. All
#: facts are None for votes without a partition. They do not depend on private records, so they may be published.
PARTITION_FACTS = ("partition_rule", "protects", "protection")

#: Facts that a released table stores if records vote by public features: the number of queries on which each record
#: votes, and True if the votes have weights.
VOTING_FACTS = ("neighbours", "weighted")

#: Advice about damaged labels or shares and about files of an older version; a release must not be drawn twice.
_AGAIN = (
    "if it is a release, restore a good copy, since drawing it again costs its privacy again; "
    "if it comes from a seed, delete the file and run snakemake again"
)
_OLDER = "an older version wrote it: use a release with the version that drew it, and recreate anything from a seed"

#: Layout with this advice, for files of a release.
_release_layout = partial(Layout, older=_OLDER, again=_AGAIN)

#: Released labels in query order; for local mechanisms also the reports of each teacher. `queries` are positions in the
#: pool; without it, labels are for the first samples in order. `kept` marks the student's own predictions, used where
#: the teachers gave no answer. `noisy_counts` are the whole release if labels are only computed from them. `teachers`
#: is the number of teachers in the release; with secure aggregation, `ensemble` is the number of all teachers.
LABELS = _release_layout(
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
)

#: Numbers of the teachers whose shares are in the file.
_SENDERS = Field("iu", ("teachers",), low=0, below="ensemble")

#: Meta entries of all files of one secure release.
OF_SHARES = (
    *("pool", "classes", "mechanism", "parameters", "mode", "ensemble", "aggregators"),
    *("abstentions", *PARTITION_FACTS),
)

#: Shares of one chunk of teachers for one aggregator: integers modulo 2⁶⁴. Without the shares of the other aggregators,
#: they are uniformly distributed. `session` identifies the run that split the votes into shares.
SHARES = _release_layout(
    "shares",
    {"shares": Field("u", ("teachers", "queries", "classes")), "teachers": _SENDERS, "queries": _ASKED},
    (*OF_SHARES, "aggregator", "session"),
)

#: Publication of one aggregator: the sum modulo 2⁶⁴ of the shares that it received, and the teachers included. Shares
#: and sums of votes with weights are in units of weight.
SHARE_SUM = _release_layout(
    "share-sum",
    {"sum": Field("u", ("queries", "classes")), "teachers": _SENDERS, "queries": _ASKED},
    (*OF_SHARES, "aggregator", "sessions"),
)

#: Sum over all aggregators: counts with the noise of every teacher that sent shares. Counts of votes with weights are
#: divided by the number of units in a vote.
NOISY_COUNTS = _release_layout(
    "noisy-counts",
    {"counts": Field("if", ("queries", "classes")), "teachers": _SENDERS, "queries": _ASKED},
    OF_SHARES,
)


#: Queries of one round: positions in the pool, and the predictions of the student of the previous round for them.
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

#: All layouts by kind.
LAYOUTS = {
    layout.kind: layout
    for layout in (
        *(SAMPLES, POOL, FEATURES, ENCODER, TRUTH, PARTITION, CHUNK, VOTES, LABELS),
        *(SHARES, SHARE_SUM, NOISY_COUNTS, QUERIES, PREDICTIONS),
    )
}
