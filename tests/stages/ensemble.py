"""Six logistic teachers on the embedded digits, for the stages that train them and join their votes."""

from pathlib import Path

from tests.stages.digits import Divided

from patebench.config.parameters import KeptOutputs, PartitionParameters, SplitParameters, TrainingParameters
from patebench.stages import join_votes, partition, train_teachers

STREAM = "digits/seed-0_pool-100_test-100/teachers-6_iid_logistic_modern"


class Ensemble(Divided):
    """Folder with the data, the partition, and the chunks that a test trains."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SplitParameters(pool=100, test=100), STREAM)
        self.partition = folder / "partition.npz"
        partition.run(
            private=self.private, public=self.public, teachers=6, parameters=PartitionParameters(), seed=0,
            stream=STREAM, out=self.partition,
        )  # fmt: skip

    def train(
        self, first: int, last: int, model: str = "logistic", epochs: int | None = None, **changes: object
    ) -> Path:
        spelt = "-".join(map(str, (first, last, model, epochs, *changes.values())))
        out = self.folder / f"{spelt.replace('/', '-')}.npz"
        arguments = {
            "private": self.private, "partition": self.partition, "pool": self.pool, "test": self.test,
            "teachers": (first, last), "training": TrainingParameters(model=model, epochs=epochs),
            "seed": 0, "stream": STREAM, "out": out,
        }  # fmt: skip
        kept = {name: changes.pop(name) for name in ("soft", "hints") if name in changes}
        train_teachers.run(**{**arguments, **changes, "kept": KeptOutputs.checked(kept)})  # type: ignore[arg-type]
        return out

    def join(self, *chunks: Path, **changes: Path) -> tuple[Path, Path]:
        out, summary = self.folder / "votes.npz", self.folder / "ensemble.json"
        inputs = {"partition": self.partition, "pool": self.pool, "truth": self.truth, "test": self.test, **changes}
        join_votes.run(**inputs, chunk=chunks, out=out, summary=summary)
        return out, summary
