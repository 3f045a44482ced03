"""The two contestants, each a module with

NEEDS          modules that are imported before anything is measured
PACKAGES       distributions whose versions are reported
built()        how the code was built, where that affects the figures
Loader(work)   opens the files
  .epoch(number)  iterates over whole batches: dicts from the name of a column to an array; where cells differ in
                  length, to values and offsets, with the innermost offsets first, or to Python strings
  .held()         the number of row groups that it mixes
"""
