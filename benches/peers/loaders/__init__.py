"""The contestants, one file for each. A file defines

NEEDS         modules that must be importable; the contestant is listed as missing if one is not
PACKAGES      distributions whose versions are reported
ENVIRONMENT   the virtual environment that `setup` makes for it; None is the environment of the benchmark itself
WORKLOADS     the names of the workloads that it takes part in
READS         the format that it reads; unless that is Parquet, the data is converted once, and the conversion is timed
PIXELS        one sentence about its work on pixels
epochs(work, threads[, converted])   a function from the number of an epoch to its batches
mixed(work)   the number of rows among which it mixes at once; all rows, if it draws from the whole data set
convert(work, converted)             writes its format into the folder; absent where it reads Parquet
CONVERTED     another contestant, whose converted files it reads; absent where it has its own
"""

REAL = ("w1-q75", "w1-q85", "w1-q95", "w1-444", "w1-grey", "w1-progressive")
PHOTOGRAPHS = ("w1", "w1-float", *REAL)
TINY = ("w4", "w4m")
