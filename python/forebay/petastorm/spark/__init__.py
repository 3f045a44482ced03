"""DataFrames of Spark as data sets of TensorFlow and loaders of PyTorch."""

from __future__ import annotations

from . import spark_dataset_converter
from .spark_dataset_converter import SparkDatasetConverter, make_spark_converter

__all__ = ["SparkDatasetConverter", "make_spark_converter", "spark_dataset_converter"]
