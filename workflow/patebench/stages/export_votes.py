"""Command `export_votes`: pack the votes of an ensemble for publication.

The metadata follow Croissant 1.0 (Akhtar et al. 2024, *Croissant: A Metadata Format for ML-Ready Datasets*). Croissant
cannot describe NumPy arrays, so the metadata list the files and state facts about the votes, but do not describe the
arrays.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import click

from patebench import __version__
from patebench.accounting.votes import Votes
from patebench.artefacts.reading import read_votes
from patebench.artefacts.records import read_manifest, select_entries
from patebench.cli.command import stage_command
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import new_folder, read_json, write_text
from patebench.core.text import plural
from patebench.data import known_outline

#: Keys of the ensemble's summary that become facts in the metadata.
_FACTS = ("dataset", "split", "seed", "teachers", "partition", "class_names", "model", "recipe", "epochs", "training")
_TERMS = (
    "citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset"
    " jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source"
    " subField transform"
)
#: Standard context of Croissant metadata.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
#: Suffix of a file → media type in the metadata.
_FORMS = {".npz": "application/zip", ".json": "application/json"}


def run(
    *,
    votes: Annotated[Path, "Votes of the ensemble."],
    summary: Annotated[Path, "Summary of the ensemble, from the stage join_votes."],
    licence: Annotated[str, "Licence of the votes, such as the URL of CC BY 4.0."],
    creator: Annotated[str, "Person or group that trained the teachers."],
    cite: Annotated[str, "Citation of the votes and of their data set."],
    url: Annotated[str | None, "Page from which the votes can be downloaded."],
    manifest: Annotated[Path | None, "Manifest of the run; required for a declared copy of a public data set."],
    out: Annotated[Path, "Output folder."],
) -> None:
    """Pack the votes of an ensemble on a public data set as a folder, with Croissant metadata (croissant.json).

    Votes reveal the records on which teachers were trained. Therefore, only votes on built-in data sets are accepted,
    and votes on copies of these. A copy needs --manifest, which must show that the configuration declares the copy
    (copy_of).
    """
    source, matrix = read_votes(votes)
    facts = read_json(summary, "join_votes")
    if facts.get("votes") != source.digest:
        raise ArtefactError(
            summary,
            f"it summarises other votes than {votes}",
            "give the summary that was written together with these votes (ensemble.json)",
            code="mismatch",
        )
    about = select_entries(summary, facts, _FACTS)
    copies = read_manifest(manifest, "copies")["copies"] if manifest else {}
    if known_outline(str(copies.get(about["dataset"], about["dataset"]))) is None:
        line = (
            f"the data set '{about['dataset']}' may be private, and votes reveal its records; export only votes"
            " on built-in data sets, or on copies of them that the run's --manifest declares"
        )
        raise PatebenchError(line, code="private-data", where=str(votes))
    if "queries_files" in source.meta:
        raise ArtefactError(
            votes,
            "its queries were selected in rounds by a student, and such votes cannot be exported",
            "give votes on the whole pool or on clusters",
            code="rounds",
        )
    with new_folder(out) as folder:
        shutil.copyfile(votes, folder / "votes.npz")
        shutil.copyfile(summary, folder / "ensemble.json")
        stated = {"license": licence, "creator": creator, "cite": cite, "url": url}
        content = _metadata(folder, about, matrix, source.digest, stated)
        write_text(folder / "croissant.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    click.echo(f"{out} contains votes of {plural(matrix.teachers, 'teacher')} on {plural(matrix.queries, 'query')}")


def _metadata(
    folder: Path, about: Mapping[str, Any], votes: Votes, digest: str, stated: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the Croissant metadata of the files in `folder`.

    `about` contains facts on the ensemble, and `digest` is the digest of `votes`. `stated` contains the command's
    options, with the keys "license", "creator", "cite" and "url".
    """
    facts = {**about, "queries": votes.queries, "classes": votes.classes, "digest": digest, "patebench": __version__}
    title = f"votes of {plural(votes.teachers, 'teacher')} on {plural(votes.queries, 'query')} of {about['dataset']}"
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"votes-{about['dataset']}-{digest[:12]}",
        "description": f"{title[:1].upper()}{title[1:]}, cast by models '{about['model']}' trained on disjoint shards"
        " of its training samples. votes.npz contains the array votes (teachers × queries), or weights of votes;"
        " −1 is an abstention. `numpy.load` reads it without pickle.",
        "license": stated["license"],
        "creator": {"@type": "sc:Organization", "name": stated["creator"]},
        "citeAs": stated["cite"],
        "url": stated["url"] or "https://pypi.org/project/patebench/",
        "version": "1.0.0",
        "datePublished": date.today().isoformat(),
        "keywords": ["differential privacy", "PATE", "teacher votes", about["dataset"]],
        "variableMeasured": [
            {"@type": "sc:PropertyValue", "name": name, "value": json.dumps(value, ensure_ascii=False)}
            for name, value in facts.items()
        ],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": path.name,
                "name": path.name,
                "contentUrl": path.name,
                "contentSize": f"{path.stat().st_size} B",
                "encodingFormat": _FORMS[path.suffix],
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in sorted(folder.iterdir())
        ],
    }


command = stage_command(run)
