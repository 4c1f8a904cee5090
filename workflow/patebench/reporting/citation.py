"""How to cite: what CITATION.cff says, as a sentence and as BibTeX, of the software and of the papers it names."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patebench.core.errors import ArtefactError

#: Where something was published, by the key of a citation file: the kind of entry in BibTeX, and the field there.
_VENUES = {"collection-title": ("inproceedings", "booktitle"), "journal": ("article", "journal")}


@dataclass(frozen=True)
class Citation:
    """Hold one thing to cite, as a sentence and as an entry of BibTeX."""

    sentence: str
    bibtex: str


def read_citations(path: Path) -> tuple[str, list[Citation]]:
    """Return the message and what to cite, the software first; ArtefactError for a faulty file."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return content["message"], [_citation(each) for each in (content, *content.get("references", ()))]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        why = str(fault).splitlines()[0]
        raise ArtefactError(path, f"it cannot be read ({why})", "restore it from the repository") from None
    except (KeyError, TypeError, AttributeError) as fault:
        raise ArtefactError(path, f"it is no citation file ({fault!r})", "restore it from the repository") from None


def _citation(entry: Mapping[str, Any]) -> Citation:
    authors = [_author(each) for each in entry["authors"]]
    year, venue = entry.get("year"), next((each for each in _VENUES if each in entry), "")
    where = str(entry.get(venue, ""))
    version = f"Version {entry['version']}." if "version" in entry else ""
    parts = [f"{', '.join(authors)}{f' ({year})' if year else ''}.", f"{entry['title']}."]
    fields = {
        "title": f"{{{entry['title']}}}",
        "author": " and ".join(_bibtex_author(each) for each in entry["authors"]),
    }
    kind, place = _VENUES.get(venue, ("software", ""))
    fields |= {place: where, "year": str(year or ""), "version": str(entry.get("version", ""))}
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    bibtex = f"@{kind}{{{_key(entry)},\n" + ",\n".join(lines) + "\n}"
    return Citation(" ".join(filter(None, [*parts, f"{where}." if where else "", version])), bibtex)


def _author(author: Mapping[str, str]) -> str:
    return author["name"] if "name" in author else f"{author['given-names']} {author['family-names']}"


def _bibtex_author(author: Mapping[str, str]) -> str:
    return f"{{{author['name']}}}" if "name" in author else f"{author['family-names']}, {author['given-names']}"


def _key(entry: Mapping[str, Any]) -> str:
    """Return first author, year and first word of the title, such as "papernot2017semi"."""
    first = entry["authors"][0].get("family-names", "")
    text = unicodedata.normalize("NFKD", f"{first}{entry.get('year', '')}{re.split(r'[^A-Za-z]', entry['title'])[0]}")
    return text.encode("ascii", "ignore").decode().lower()
