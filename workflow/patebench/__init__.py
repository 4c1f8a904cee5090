"""patebench: a reproducibility benchmark for private learning with teacher ensembles.

In Python, with votes of your own:

    import patebench

    patebench.bounds(counts, "gnmax", sigma=40, delta=1e-5)[0]
    labels = patebench.label(counts, "gnmax", sigma=40, release=True)

`patebench.api` explains each function. `import patebench` is fast: other modules are imported when a name is used.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.8.0"

__all__ = [
    "MECHANISMS",
    "NO_ANSWER",
    "Audit",
    "Bound",
    "Calibration",
    "Mechanism",
    "PatebenchError",
    "Student",
    "Votes",
    "audit",
    "bounds",
    "calibrate",
    "label",
    "make_mechanism",
    "train_student",
]

if TYPE_CHECKING:
    from patebench.accounting.votes import Votes as Votes
    from patebench.api import Audit as Audit
    from patebench.api import audit as audit
    from patebench.api import bounds as bounds
    from patebench.api import calibrate as calibrate
    from patebench.api import label as label
    from patebench.api import train_student as train_student
    from patebench.calculator.calculations import Calibration as Calibration
    from patebench.core.bound import Bound as Bound
    from patebench.core.errors import PatebenchError as PatebenchError
    from patebench.mechanisms import MECHANISMS as MECHANISMS
    from patebench.mechanisms.base import NO_ANSWER as NO_ANSWER
    from patebench.mechanisms.base import Mechanism as Mechanism
    from patebench.mechanisms.base import make_mechanism as make_mechanism
    from patebench.students.classifier import Student as Student
else:
    #: Module that defines each name; other names are in `patebench.api`.
    _MODULES = {
        "PatebenchError": "patebench.core.errors",
        "Bound": "patebench.core.bound",
        "Votes": "patebench.accounting.votes",
        "MECHANISMS": "patebench.mechanisms",
        "Mechanism": "patebench.mechanisms.base",
        "NO_ANSWER": "patebench.mechanisms.base",
        "make_mechanism": "patebench.mechanisms.base",
        "Calibration": "patebench.calculator.calculations",
        "Student": "patebench.students.classifier",
    }

    def __getattr__(name: str) -> Any:
        """Import and return the object `name`, which must be in `__all__`."""
        if name not in __all__:
            raise AttributeError(f"module 'patebench' has no attribute '{name}'")
        from importlib import import_module

        return getattr(import_module(_MODULES.get(name, "patebench.api")), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    class _Package(ModuleType):
        """Module type of this package, which keeps the public function `audit` when the subpackage `audit` is imported.

        Python would otherwise replace the function by the module of the subpackage, because both have the same name.
        """

        def __setattr__(self, name: str, value: Any) -> None:
            if not (name in __all__ and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Package
