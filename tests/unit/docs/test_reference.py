"""The reference is what the code says now."""

import pytest

from docs.generate import FOLDER, PAGES, main, make_page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_would_be_made_now(name: str):
    assert (FOLDER / name).read_text(encoding="utf-8") == make_page(name), "run `make docs`"


def test_the_reference_holds_no_page_that_nobody_makes():
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_a_check_of_fresh_pages_writes_nothing_and_succeeds(capsys: pytest.CaptureFixture[str]):
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "stale: none\n"
