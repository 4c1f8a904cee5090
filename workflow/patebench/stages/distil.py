"""Stage `distil`: compare training on labels with training on probabilities (PATE 2017, Figure 5 and Appendix C.1).

The networks are not private: no noise is added to the votes and probabilities.
"""

import itertools
import logging
from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import check_learner, check_together, check_whole_pool, read_samples
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.config.parameters import DistilParameters
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, write_json
from patebench.core.formats import POOL, VOTES
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.models import epochs_of, make_learner

log = logging.getLogger("patebench")


def run(
    *,
    votes: Annotated[Path, "Votes of the ensemble, with probabilities."],
    pool: Annotated[Path, "Public pool."],
    test: Annotated[Path, "Test set."],
    parameters: DistilParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the accuracies."],
) -> None:
    """Train networks on labels and on the teachers' probabilities, without privacy, and measure the test accuracy.

    The training targets are the plurality labels, or the teachers' mean probabilities. The probabilities are softened
    by a temperature, and the file of votes contains them for several temperatures. One network is trained for the
    plurality labels and one for each temperature, for each number of samples given as --samples. Samples are taken from
    the start of the pool.
    """
    from patebench.baselines.soft_labels import fit, targets
    from patebench.models.network import Network

    source, public, test_set = read_arrays(votes, VOTES), read_arrays(pool, POOL), read_samples(test, "test")
    check_together(pool=public, votes=source)
    check_whole_pool(source)
    samples, model, recipe = parameters.samples, parameters.model, parameters.recipe
    if max(samples) > len(public["x"]):
        raise PatebenchError(
            f"--samples is {max(samples)}, but {pool} has {len(public['x'])} samples; use at most {len(public['x'])}"
        )
    if "soft" not in source.arrays:
        raise ArtefactError(
            votes,
            "it lacks the teachers' class probabilities",
            "set temperatures for the ensemble in the configuration, such as 'soft: [1, 5]', and train it again",
        )
    classes = source.meta["classes"]
    kinds = dict(targets(source["votes"], classes, source.meta["temperatures"], source["soft"]))
    learnt = []
    with progress(f"distillation, {model}", len(kinds) * len(samples), "networks") as done:
        for number, ((name, temperature), target) in itertools.product(sorted(samples), kinds.items()):
            learner = make_learner(model, recipe, classes=classes, epochs=parameters.epochs)
            if not isinstance(learner, Network):
                raise PatebenchError(
                    f"the model '{model}' is not a network, so it cannot learn from probabilities; use --model mlp"
                )
            # Use one seed for all kinds of labels, so that they are comparable.
            fit(learner, public["x"][:number], target[:number], temperature, seed=derive(seed, stream, number))
            check_learner(f"network of {name} labels", learner, public)
            reached = class_accuracy(test_set["y"], learner.predict(test_set["x"]), test_set.meta["class_names"])
            log.info(
                "%s, temperature %g, %d samples: accuracy %.2f%% on the test set",
                name, temperature, number, 100 * reached["accuracy"],
            )  # fmt: skip
            learnt.append({"labels": name, "temperature": temperature, "samples": number, **reached})
            done(len(learnt))
    facts = {"model": model, "recipe": recipe, "epochs": epochs_of(recipe, parameters.epochs), "seed": seed}
    facts |= {"training": parameters.training.model_dump()}
    write_json(out, "distil", {"votes": source.digest, "test": test_set.digest, **facts, "learnt": learnt})


command = stage_command(run, threads)
