"""Training runs inside each framework, which are killed and resumed: what ``forebay verify --trainer`` runs.

``verify`` runs the cases of a trainer, each of which is two runs of ``process`` that ``cases`` starts and
``ledger`` judges. There is one module for each trainer, with a loop over forebay and one over the loader that
the framework's own guide recommends. The model has two parameters.
"""
