"""Trains up to step N on a DataFrame of Spark, in two processes, and resumes there when run with a larger N.

forebay synth clicks --rows 4000 --table
python examples/resume_spark.py clicks 15
python examples/resume_spark.py clicks 25
"""

import os
import sys

import torch
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession

import forebay as fb


def train(data, steps, checkpoint):
    torch.distributed.init_process_group("gloo")
    shard = fb.Shard.from_env()
    train = fb.Loader(data, batch_size=400 // shard.world, shuffle=fb.Shuffle(seed=17), shard=shard, epochs=9)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        train.load_state_dict(saved["loader"])
    while True:
        for batch in fb.torch.batches(train):
            model(batch["I1"].float()[:, None] / 100).mean().backward()
            at = train.state_dict()
            if (step := at["epoch"] * 10 + at["row"] // 400) == steps:
                if shard.rank == 0:
                    torch.save({"model": model.state_dict(), "loader": at}, checkpoint)
                return f"trained to step {step}, which is row {at['row']} of epoch {at['epoch']}"


spark = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
clicks = spark.read.parquet(sys.argv[1]).select("I1", "label").na.fill(0, ["I1"])
arguments = fb.spark.dataset(clicks, "spark-data"), int(sys.argv[2]), os.path.abspath("spark-run.pt")
print(TorchDistributor(num_processes=2, use_gpu=False).run(train, *arguments))
