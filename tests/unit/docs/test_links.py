"""Every relative link leads to a file and, where it names one, to a heading."""

from pathlib import Path

import pytest

from tests.architecture.tree import shown
from tests.unit.docs.pages import DOCUMENTS, anchors, links


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_every_relative_link_leads_somewhere(page: Path):
    lost = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        place = (page.parent / target).resolve() if target else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            lost.append(link)
    assert lost == []
