"""Test the page in a browser, opened as a file: wide and narrow, dark and in print.

The tests need Chromium and are skipped without it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browsing import CHROMIUM, grave_violations
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.mechanisms import MECHANISMS
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]

#: Width, medium and colour scheme of each way to view the page.
WAYS = {
    "wide": (1280, "screen", "light"),
    "narrow": (400, "screen", "dark"),
    "between": (500, "screen", "light"),
    "in print": (1280, "print", "light"),
}
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with drawn figures of students, labels and models, and with empty ones."""
    folder = tmp_path_factory.mktemp("page")
    collected, baselines = made.files(folder / "records")
    weak = made.label_set(made.ensemble(), "gnmax", 5.0) | {"mechanism": "confident-gnmax"}
    weak |= {"noise": "made-up", "parameters": {"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}}
    costly = [made.student_record(weak, 100, 0.9), made.bound_record(weak, 100, 20.0, "pld", Kind.WORST_CASE)]
    for mechanism in ("exponential", "permute-and-flip", "stable-argmax", "stable-svt", "lnmax"):
        one = {**weak, "mechanism": mechanism, "parameters": dict(MECHANISMS.load(mechanism).example)}
        costly += [made.student_record(one, 100, 0.9), made.bound_record(one, 100, 5.0, "pld", Kind.WORST_CASE)]
    collected = [*collected, made.write_collected(folder / "weak.json", costly)]
    made.write_report(folder, collected, baselines, FIGURES, TABLES)
    return folder / "report.html"


@pytest.fixture(scope="module")
def opened(browser, report: Path) -> Iterator:
    """Return a function that opens the page in a way and returns it with its requests and console messages."""
    pages: dict[str, tuple] = {}

    def open_page(way: str):
        if way not in pages:
            width, medium, colours = WAYS[way]
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
            page, asked, faults = context.new_page(), [], []
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: faults.append(message.text) if message.type in _BAD else None)
            page.on("pageerror", lambda fault: faults.append(str(fault)))
            page.emulate_media(media=medium)
            page.goto(report.as_uri())
            pages[way] = page, asked, faults
        return pages[way]

    yield open_page
    for page, *_ in pages.values():
        page.context.close()


_BAD = ("error", "warning")


@each_way
def test_page_requests_no_file_and_logs_no_error(opened, report, way):
    _, asked, faults = opened(way)
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    assert faults == []


@each_way
def test_every_figure_is_visible(opened, way):
    page, _, _ = opened(way)
    figures = page.locator("figure").all()
    assert len(figures) > 5
    for figure in figures:
        box = figure.locator("svg").bounding_box()
        assert box is not None, f"{figure.get_attribute('id')} is not shown"
        assert box["width"] > 200
        assert box["height"] > 60
        frame = figure.locator(".frame").bounding_box()
        assert 0 <= frame["x"] <= frame["x"] + frame["width"] <= WAYS[way][0], "a wide figure scrolls in its frame"


@each_way
def test_page_has_no_serious_accessibility_violation(browser, report, way):
    """Find no violation of axe-core's rules of serious or critical impact, long tables unfolded.

    Rows of a table are alike and axe is slow for thousands of cells, so only the wide page keeps all rows.
    """
    width, medium, colours = WAYS[way]
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
    page.emulate_media(media=medium)
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
    if way != "wide":
        page.evaluate("document.querySelectorAll('tbody tr:nth-child(n+5)').forEach(row => row.remove())")
    found = grave_violations(page, options={"resultTypes": ["violations"]})
    page.close()
    assert found == []


@pytest.mark.parametrize("way", ["wide", "narrow"])
def test_wide_figures_state_that_they_scroll(opened, way):
    page, _, _ = opened(way)
    said = "frame => getComputedStyle(frame, '::before').content.includes('sideways')"
    for frame in page.locator("figure .frame").all():
        wider = frame.evaluate("frame => frame.scrollWidth > frame.clientWidth")
        assert frame.evaluate(said) == wider


def test_accuracies_are_visible_on_a_narrow_screen(opened):
    page, _, _ = opened("narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    cells = page.locator("#table-utility-privacy td.main").all()
    assert cells
    for cell in cells:
        box = cell.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 400
        assert cell.get_attribute("data-label")


@pytest.mark.parametrize(("way", "wide"), [("wide", True), ("narrow", False)])
def test_navigation_stays_visible_and_folds_on_a_narrow_screen(opened, way, wide):
    page, _, _ = opened(way)
    assert page.locator("nav > ul").is_visible() == wide
    assert page.locator("nav summary").is_visible() != wide
    page.evaluate("window.scrollTo(0, 3000)")
    assert page.locator("nav").bounding_box()["y"] == 0
    page.evaluate("window.scrollTo(0, 0)")


def test_folded_tables_are_printed(opened):
    page, _, _ = opened("in print")
    assert not page.locator("nav").is_visible()
    assert page.locator("#table-accountants table").bounding_box()["height"] > 50
    assert page.locator("#table-accountants summary").is_hidden()
