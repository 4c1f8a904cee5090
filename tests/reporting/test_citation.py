"""How to cite, from CITATION.cff."""

from pathlib import Path

import pytest

from patebench.core.errors import ArtefactError
from patebench.reporting.citation import read_citations

CITATION = Path(__file__).parents[2] / "CITATION.cff"


def test_the_software_and_the_papers() -> None:
    message, (software, first, *papers) = read_citations(CITATION)
    assert message.startswith("If you use patebench")
    assert software.sentence.startswith("The patebench developers. patebench: a reproducibility benchmark")
    assert first.sentence.startswith("Nicolas Papernot, Martín Abadi,")
    assert "(2017). Semi-supervised Knowledge Transfer" in first.sentence
    assert first.bibtex.splitlines()[0] == "@inproceedings{papernot2017semi,"
    assert "  author = {Papernot, Nicolas and Abadi, Martín and" in first.bibtex
    assert first.bibtex.count("{") == first.bibtex.count("}")
    (preprint,) = (each for each in papers if "1906.02303" in each.sentence)
    assert preprint.bibtex.splitlines()[0] == "@article{sun2019private,"
    assert "  journal = {arXiv:1906.02303}," in preprint.bibtex
    assert software.bibtex.startswith("@software{")


@pytest.mark.parametrize("text", ["", "message: x\n", "[", "message: x\nauthors: 3\ntitle: y\n"])
def test_what_is_no_citation_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "CITATION.cff").write_text(text)
    with pytest.raises(ArtefactError) as caught:
        read_citations(path)
    assert "\n" not in str(caught.value)
