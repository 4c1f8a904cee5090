"""PET-DL (Sun et al. 2019): a student learns from the probabilities and hidden layers of teachers on public samples.

The package contains the published form, which is not private, and two sound forms of the same idea. Each form is a
subclass of `form.Form` in its own file. The forms share the student, the training loop and the accounting. The outputs
of the teachers are passed as `student.Knowledge`.
"""

from patebench.core.registry import Registry, instance_of

FORMS = Registry("form of PET-DL", "patebench.petdl", instance_of("patebench.petdl.form:Form"))
FORMS.add("published", "patebench.petdl.published_form:FORM")
FORMS.add("noisy-gradient", "patebench.petdl.noisy_gradient:FORM")
FORMS.add("noisy-knowledge", "patebench.petdl.noisy_knowledge:FORM")
