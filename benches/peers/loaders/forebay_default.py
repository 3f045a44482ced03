"""forebay with its defaults: the window holds the rows that take 1 GiB."""

from dataclasses import replace

from loaders import forebay

NEEDS = forebay.NEEDS
PACKAGES = forebay.PACKAGES
ENVIRONMENT = forebay.ENVIRONMENT
WORKLOADS = forebay.WORKLOADS
READS = forebay.READS
PIXELS = forebay.PIXELS


def mixed(work):
    return forebay.mixed(replace(work, mixed=None))


def epochs(work, threads):
    return forebay.epochs(replace(work, mixed=None), threads)
