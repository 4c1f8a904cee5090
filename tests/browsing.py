"""Find Chromium, and list the serious violations that axe-core reports on a page."""

import shutil
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def grave_violations(page: Any, options: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Return axe-core's violations of serious or critical impact on `page`: (rule, HTML of the first element) each."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page, options=options).response["violations"]
    grave = [fault for fault in violations if fault["impact"] in ("serious", "critical")]
    return [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in grave]
