"""Log lines on disk."""

import logging
import sys
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("patebench")


class LogFile(logging.FileHandler):
    """A log that a full disk may end, but that never ends the work of which it tells."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, mode="w", encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        fault = sys.exc_info()[1]
        if not isinstance(fault, OSError):
            super().handleError(record)
            return
        log.removeHandler(self)
        print(f"patebench: {self.baseFilename}: the log ends here ({fault.strerror}); work goes on", file=sys.stderr)
        with suppress(OSError):
            self.close()
