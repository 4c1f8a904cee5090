"""The documentation site: builds in strict mode, and opens without a network, wide and narrow.

Needs what `make docs` installs, and Chromium; skipped elsewhere.
"""

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import patebench
from patebench.cli import COMMANDS
from tests.browsing import CHROMIUM, grave_violations

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
PATHS = os.pathsep.join([str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS}
needs_site = pytest.mark.skipif(find_spec("mkdocs") is None, reason="no mkdocs: run make docs first")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

#: Pages of the leaderboard.
BOARD = ("leaderboard/index", "leaderboard/entries-adult", "leaderboard/values")
#: Window width, preferred colours, and pages of each kind: home, guide, reference, formulas, wide tables.
WAYS = {
    "wide": (
        1280,
        "light",
        ("index", "how-to/publish-labels", "reference/api", "explanation/which-epsilon", "kept/index", *BOARD),
    ),
    "dark": (1280, "dark", ("index", "explanation/which-epsilon", *BOARD)),
    "narrow": (400, "light", ("index", "tutorial", "reference/api", "explanation/one-vote", "kept/index", *BOARD)),
}
#: Rows of long tables and sections of entries after the first ones, which are alike and slow to check.
MORE = ".board tbody tr:nth-child(n+4), .entry:nth-of-type(n+4)"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**ENVIRONMENT, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@needs_site
def test_pages_have_mathml_every_command_and_function_and_ask_no_other_server(site: Path) -> None:
    pages = {page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert "<math" in pages["explanation/pate.html"]
    for name, text in pages.items():
        assert 'src="http' not in text, name
        assert '<link rel="stylesheet" href="http' not in text, name
    assert [name for name in COMMANDS if f"patebench {name}" not in pages["reference/commands.html"]] == []
    assert [name for name in patebench.__all__ if f">{name}<" not in pages["reference/api.html"]] == []


@needs_site
@needs_browser
@pytest.mark.parametrize("way", WAYS)
def test_pages_open_without_a_network_and_are_accessible(browser, address: str, way: str) -> None:
    """No console message, no request elsewhere, nothing wider than the window, no serious axe violation."""
    width, scheme, pages = WAYS[way]
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("request", lambda request: faults.append(request.url) if not request.url.startswith(address) else None)
    for name in pages:
        page.goto(f"{address}/{name}.html", wait_until="load")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            faults.append(f"{name}: wider than the window")
        page.evaluate("selector => document.querySelectorAll(selector).forEach(part => part.remove())", MORE)
        faults += [f"{name}: {rule}: {element}" for rule, element in grave_violations(page)]
    context.close()
    assert faults == []


@needs_site
@needs_browser
def test_search_finds_a_page(browser, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/index.html", wait_until="networkidle")
    page.locator("[data-md-component=search-query]").first.click()
    page.keyboard.type("ledger")
    page.locator(".md-search-result__link").first.wait_for(state="attached", timeout=20_000)


@needs_site
def test_the_leaderboard_follows_from_the_repository_byte_by_byte(site: Path, tmp_path: Path) -> None:
    """Another process with other hashes writes the same files."""
    program = Path(sys.executable).with_name("patebench")
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": "1"}
    subprocess.run([program, "leaderboard", "--root", ROOT, "--out", tmp_path], env=environment, check=True)
    files = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")}
    made = ROOT / "build" / "leaderboard"
    assert files == {path.relative_to(made): path.read_bytes() for path in made.rglob("*.*") if path.stem != "inputs"}
    assert all((site / "leaderboard" / name.with_suffix(".html")).is_file() for name in files if name.suffix == ".md")


@needs_site
@needs_browser
def test_tables_of_the_leaderboard_are_filtered_sorted_and_ranked_again(browser, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/leaderboard/index.html#mnist")
    frame = page.get_by_role("region", name="Entries on MNIST", exact=True)
    filters = page.locator(".board-filters").nth(_place(page, frame))
    filters.get_by_label("ε ≤").fill("1")
    filters.get_by_label("Unit").select_option("record, replaced")
    filters.get_by_label("Status").select_option("proved")
    rows = _shown_rows(frame)
    assert len(rows) > 2
    assert all(float(row["epsilon"]) <= 1 and row["unit"] == "record, replaced" for row in rows)
    accuracies = [float(row["accuracy"]) for row in rows]  # rounded; ranks are those of the exact values
    for row, accuracy in zip(rows, accuracies, strict=True):
        above = sum(other > accuracy for other in accuracies)
        assert above < int(row["rank"]) <= above + accuracies.count(accuracy)
    for direction in (1, -1):
        frame.get_by_role("button", name="Accuracy %").click()
        values = [float(row["accuracy"]) for row in _shown_rows(frame)]
        assert values == sorted(values, reverse=direction < 0)
    filters.get_by_label("Status").select_option("violated")
    assert {row["rank"] for row in _shown_rows(frame)} <= {"—"}
    page.close()


def _place(page, frame) -> int:
    """Return the place of a table among those with filters."""
    names = [one.get_attribute("aria-label") for one in page.locator(".board:not(.plain)").all()]
    return names.index(frame.get_attribute("aria-label"))


def _shown_rows(frame) -> list[dict[str, str]]:
    """Return rank, accuracy, ε and unit of the visible rows of a table."""
    names = {"rank": 0, "accuracy": 2, "epsilon": 4, "unit": 7}
    rows = "[...frame.querySelectorAll('tbody tr:not([hidden])')]"
    cells = frame.evaluate(f"frame => {rows}.map(row => [...row.cells].map(cell => cell.textContent))")
    return [{name: row[place] for name, place in names.items()} for row in cells]


@needs_site
@needs_browser
@pytest.mark.parametrize("medium", ["screen", "print"])
def test_the_leaderboard_is_read_without_scripts_and_in_print(browser, address: str, medium: str) -> None:
    context = browser.new_context(java_script_enabled=medium == "print", viewport={"width": 800, "height": 1100})
    page = context.new_page()
    page.emulate_media(media=medium)
    page.goto(f"{address}/leaderboard/index.html")
    table = page.get_by_role("region", name="Entries on MNIST", exact=True).locator("table")
    assert table.locator("tbody tr").count() > 50
    assert table.locator("tbody tr").last.is_visible()
    assert not any(filters.is_visible() for filters in page.locator(".board-filters").all())
    if medium == "print":
        assert table.bounding_box()["width"] <= 800
    context.close()


def test_every_page_is_in_the_navigation() -> None:
    class Loader(yaml.SafeLoader):
        """Loader that reads the names of Python objects as text."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    text = yaml.safe_dump(config["nav"])
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in text] == []
