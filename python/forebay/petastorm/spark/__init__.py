"""Petastorm's Spark converter, which turns Spark DataFrames into TensorFlow data sets and PyTorch loaders."""

from __future__ import annotations

from . import spark_dataset_converter
from .spark_dataset_converter import SparkDatasetConverter, make_spark_converter

__all__ = ["SparkDatasetConverter", "make_spark_converter", "spark_dataset_converter"]
