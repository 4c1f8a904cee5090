"""PET-DL (Sun et al. 2019): a student learns from teachers' outputs on public samples beyond their votes.

There is the published form, and two sound forms of the same idea. Each form is a `form.Form` in its own file; they
share the student, the loop and the accounting. The teachers' outputs come as `student.Knowledge`; only stages read
files.
"""

from patebench.core.registry import Registry, instance_of

FORMS = Registry("form of PET-DL", "patebench.petdl", instance_of("patebench.petdl.form:Form"))
FORMS.add("published", "patebench.petdl.published_form:FORM")
FORMS.add("noisy-gradient", "patebench.petdl.noisy_gradient:FORM")
FORMS.add("noisy-knowledge", "patebench.petdl.noisy_knowledge:FORM")
