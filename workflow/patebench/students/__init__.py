"""Students: all that learn from released labels and public samples, never from counts, votes or true labels."""

from patebench.core.registry import Registry

STUDENTS = Registry("student method")
STUDENTS.add("supervised", "patebench.students.supervised:train")
