"""PET-DL (Sun et al. 2019): a student learns from what teachers say of public samples beyond their votes.

As published, and in two sound forms of the same idea. A form is a `form.Form`, in a file of its own; the student, the
loop and the accounting are shared. What the teachers know comes in as `knowledge.Knowledge`; only stages read files.
"""

from patebench.core.registry import Registry, instance_of

FORMS = Registry("form of PET-DL", "patebench.petdl", instance_of("patebench.petdl.form:Form"))
FORMS.add("published", "patebench.petdl.published_form:FORM")
FORMS.add("noisy-gradient", "patebench.petdl.noisy_gradient:FORM")
FORMS.add("noisy-knowledge", "patebench.petdl.noisy_knowledge:FORM")
