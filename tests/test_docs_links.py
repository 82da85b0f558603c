"""Links and pictures of the documents lead somewhere, and the pictures stay small."""

import re
from pathlib import Path

import pytest
from documents import DOCUMENTS, REPOSITORY, name_of

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PICTURES = sorted((REPOSITORY / "docs" / "figures").glob("*.png"))


def _links(document: Path) -> list[str]:
    return [link for link in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]


def _anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files_and_headings(document: Path):
    broken = []
    for link in _links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert not broken, f"{name_of(document)} links to {broken}, which are not there"


def test_every_picture_is_shown_and_together_they_stay_under_a_megabyte():
    shown = {(document.parent / link).resolve() for document in DOCUMENTS for link in _links(document)}
    assert set(PICTURES) <= shown
    assert sum(picture.stat().st_size for picture in PICTURES) < 1_000_000
