"""Test training inside each framework for ``forebay verify --trainer``: a run is killed and resumed, and the
rows that it delivered are counted.

``verify`` runs two cases for a trainer: one with forebay, and one with the loader that the framework's own
guide recommends. ``cases`` starts both runs of a case, each in processes of the module ``process``, and
``ledger`` counts the rows. There is one module for each trainer. The model has two parameters.
"""
