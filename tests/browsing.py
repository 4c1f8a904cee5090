"""Chromium and axe-core, for the tests of pages: where the browser is, and which violations count."""

import shutil
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def grave_violations(page: Any, options: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Return the violations of axe-core's rules of serious or critical impact: rule, and the first element."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page, options=options).response["violations"]
    grave = [fault for fault in violations if fault["impact"] in ("serious", "critical")]
    return [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in grave]
