"""The two contestants, each a module with

NEEDS          modules that are imported before anything counts
PACKAGES       distributions whose versions are reported
built()        what else about their code decides the figures
Loader(work)   opens the files
  .epoch(number)  iterates over whole batches: dicts from the name of a column to its array; to values and offsets,
                  the innermost ones first, where cells differ in length; or to texts as objects of Python
  .held()         row groups that it mixes
"""
