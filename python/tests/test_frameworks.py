"""Real training loops that learn, in each framework that is installed."""

from __future__ import annotations

import subprocess
import sys
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, ids, need_keras, small, with_keras

import forebay as fb
from forebay.adapters import Batches

IMAGE = fb.Image.random_resized_crop(24, scale=(0.9, 1.0), ratio=(1.0, 1.3))


def test_torch_learns(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(4),
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses: list[float] = []
    image = IMAGE.dtype("float32").layout("NCHW")
    with fb.Loader(photos, decode={"image": image}, batch_size=32, shuffle=fb.Shuffle(seed=1)) as train:
        batches = fb.torch.batches(train)
        assert len(batches) == len(train) == 8
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*writ.*")
            for _ in range(6):
                total = 0.0
                for batch in batches:
                    loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.item()
                losses.append(total / len(batches))
        assert train.state_dict()["epoch"] == 6
    assert losses[-1] < losses[0] / 4, losses


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"batch_size": None}, {"num_workers": 1}], ids=str)
def test_a_data_loader_over_a_loader_says_what_to_do_instead(plain: Path, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    with small(plain) as train, pytest.raises(TypeError, match=r"takes the place of a DataLoader"):
        next(iter(torch.utils.data.DataLoader(train, **options)))


@pytest.mark.parametrize("name", ["torch", "keras", "jax", "tf"])
def test_what_is_not_a_loader_is_refused_at_once(name: str) -> None:
    try:
        module = getattr(fb, name)
    except ImportError as error:
        pytest.skip(str(error))
    door = module.dataset if name == "tf" else module.batches
    with pytest.raises(fb.InvalidError, match=r"expected a forebay.Loader, got str") as caught:
        door("https://ann:hunter2@host/x")
    assert "hunter2" not in str(caught.value)


def test_batches_in_any_type_are_of_a_loader() -> None:
    with pytest.raises(fb.InvalidError, match=r"expected a forebay.Loader, got list"):
        Batches([], dict)  # type: ignore[arg-type]


def test_torch_takes_every_column(plain: Path) -> None:
    torch = pytest.importorskip("torch")
    with small(plain) as train, small(plain) as again:
        for batch, tensors in zip(again, fb.torch.batches(train, device="cpu"), strict=True):
            assert list(tensors) == list(batch)
            for name in ("id", "u8", "f16", "f32", "f64", "flag", "vector", "cell"):
                assert isinstance(tensors[name], torch.Tensor)
                assert tensors[name].tolist() == batch[name].tolist()
            assert [row.tolist() for row in tensors["words"].unbind()] == [list(row) for row in batch["words"]]
            assert tensors["name"].tolist() == batch["name"].tolist()
            assert tensors["when"].dtype == "datetime64[us]"
        assert [t["id"].tolist() for t in fb.torch.batches(train).epoch(1)] == ids(again)


def test_torch_takes_what_a_transform_made(photos: Path) -> None:
    torch = pytest.importorskip("torch")

    def transform(batch: dict[str, np.ndarray]) -> dict[str, object]:
        nested = torch.nested.nested_tensor([torch.ones(2)] * 32)
        return {"image": batch["image"][:, ::2], "made": torch.ones(32), "nested": nested, "text": "x"}

    decode = {"image": fb.Image.resize(8, 8).dtype("bfloat16")}
    with fb.Loader(photos, decode=decode, transform=transform) as train:
        batch = next(iter(fb.torch.batches(train)))
    assert batch["image"].shape == (32, 4, 8, 3)
    assert batch["made"].tolist() == [1] * 32
    assert batch["text"] == "x"
    assert batch["nested"].size(0) == 32


def test_torch_uploads_one_batch_ahead(plain: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    with small(plain) as train, small(plain) as again:
        for batch, tensors in zip(again, fb.torch.batches(train, device="cuda"), strict=True):
            assert tensors["vector"].device.type == "cuda"
            assert tensors["vector"].cpu().tolist() == batch["vector"].tolist()
            assert train.state_dict() == again.state_dict()


def test_working_ahead_changes_neither_states_nor_the_place_of_an_error(plain: Path) -> None:
    from forebay.adapters import Batches

    seen: list[int] = []

    def convert(batch: fb.Batch) -> list[int]:
        seen.append(1)
        if len(seen) == 7:
            raise ArithmeticError("seventh")
        return batch["id"].tolist()

    with small(plain) as train, small(plain) as again:
        got = []
        with pytest.raises(ArithmeticError):
            for rows in Batches(train, convert, ahead=2, finish=lambda rows: ("finished", rows)):
                got.append(rows[1])
                assert train.state_dict()["row"] == 64 * len(got)
        assert got == ids(again)[:6]
        assert len(list(Batches(train, convert, ahead=20))) == 16


KERAS = """
    import sys
    import numpy as np
    import forebay as fb
    import keras

    keras.utils.set_random_seed(1)
    image = fb.Image.random_resized_crop(24, scale=(0.9, 1.0), ratio=(1.0, 1.3)).dtype("float32")
    def loader(**more):
        return fb.Loader(sys.argv[1], decode={"image": image}, batch_size=32, **more)
    train, val = loader(shuffle=fb.Shuffle(seed=1)), loader()

    model = keras.Sequential([
        keras.layers.Conv2D(8, 5, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(4),
    ])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.optimizer.learning_rate = 3e-3

    rows = []
    def look(batch):
        rows[-1] += batch["id"].tolist()
        return batch["label"]

    class Epochs(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            rows.append([])

    rows.append([])
    # The first batch is drawn to build the model, but must still be trained.
    steps = [0]
    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            steps[0] += 1

    history = model.fit(fb.keras.batches(train, y=look), validation_data=fb.keras.batches(val), epochs=6,
                        callbacks=[Epochs(), Steps()], verbose=0).history
    assert steps[0] == 6 * 8, steps
    for epoch in rows[:6]:
        assert sorted(epoch) == list(range(256)), len(epoch)
    want = [[i for batch in train.epoch(e) for i in batch["id"].tolist()] for e in range(6)]
    assert rows[:6] == want
    assert history["loss"][-1] < history["loss"][0] / 4, history["loss"]
    assert history["val_accuracy"][-1] > 0.9, history["val_accuracy"]
    assert val.state_dict()["epoch"] == 6, val.state_dict()

    loss, accuracy = model.evaluate(fb.keras.batches(val), verbose=0)
    assert accuracy > 0.9
    assert model.predict(fb.keras.batches(val, y=None), verbose=0).shape == (256, 4)

    # Keras takes fewer steps than the epoch has, so its next epoch continues where this one ended.
    rows[:] = [[]]
    train = loader(shuffle=fb.Shuffle(seed=2))
    model.fit(fb.keras.batches(train, y=look), epochs=4, steps_per_epoch=4, callbacks=[Epochs()], verbose=0)
    assert sorted(rows[0] + rows[1]) == sorted(rows[2] + rows[3]) == list(range(256))

    # A loop of the user takes one epoch, and Keras continues with the next one.
    batches = fb.keras.batches(loader(shuffle=fb.Shuffle(seed=2)))
    model.fit(batches, verbose=0)
    assert sum(len(y) for x, y in batches) == 256
    model.fit(batches, verbose=0)
    assert batches.loader.state_dict()["epoch"] == 3
    try:
        assert 7 not in batches
        print("searched")
    except TypeError:
        pass
    print("learned", keras.backend.backend())
"""


@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
def test_keras_learns(photos: Path, backend: str) -> None:
    need_keras(backend)
    done = with_keras(backend, KERAS, photos)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"learned {backend}"


WEIGHTS = """
    import sys
    import numpy as np
    import forebay as fb
    import keras

    weights = np.array([0.0, 1.0, 2.0, 5.0], "float32")
    train = fb.Loader(sys.argv[1], columns=["label"], batch_size=32)
    inputs = keras.layers.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(4, kernel_initializer="zeros")(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss)

    def x(batch):
        return batch["label"][:, None].astype("float32")

    def fit(sample_weight=None, **more):
        batches = fb.keras.batches(train, x=x, sample_weight=sample_weight)
        return model.fit(batches, epochs=1, verbose=0, **more).history["loss"][0]

    each = np.log(4.0)
    found = {
        "plain": fit(),
        "sample": fit(lambda batch: weights[batch["label"]]),
        "class": fit(class_weight=dict(enumerate(weights.tolist()))),
        "other": fit(lambda batch: np.ones(len(batch["label"]), "float32")),
    }
    assert np.isclose(found["plain"], each) and np.isclose(found["other"], each), found
    # Each weight applies to a quarter of the rows; on average they are 2 if Keras divides by the number of
    # rows, as it does for both kinds of weights.
    assert np.isclose(found["sample"], found["class"]) and not np.isclose(found["class"], each), found
    try:
        fb.keras.batches(train)[0]
    except fb.UnknownColumnError as error:
        assert 'no column "image"' in str(error) and "unless x= and y= name others" in str(error), error
        assert error.column == "image"
    else:
        raise AssertionError("an image came")
    print("weighed", keras.backend.backend())
"""


CALLS = """
    import sys
    import numpy as np
    import forebay as fb
    import keras

    train = fb.Loader(sys.argv[1], columns=["id"], batch_size=32)

    def x(batch):
        return batch["id"][:, None].astype("float32")

    def nothing(batch):
        return np.zeros((len(batch["id"]), 1), "float32")

    class Break(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

        def on_train_batch_end(self, batch, logs=None):
            if batch == 4:
                raise KeyboardInterrupt

    def broken(call, *given, **more):
        try:
            call(*given, callbacks=[Break()], verbose=0, **more)
        except KeyboardInterrupt:
            return
        raise AssertionError("not interrupted")

    def identity():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.layers.Input((1,)), dense])
        model.compile(keras.optimizers.SGD(0.0), "mse")
        return model

    # A model that was interrupted may have lost its weights, because Keras removes them while it runs JAX.
    model = identity()
    data = fb.keras.batches(train, x=x, y=nothing)
    ids = model.predict(data, verbose=0)[:, 0].tolist()
    assert ids == sorted(ids) and len(ids) == 1000
    # The next call does not continue a call that was interrupted.
    assert model.predict(data, steps=3, verbose=0)[:, 0].tolist() == ids[:96]
    assert model.predict(data, verbose=0)[:, 0].tolist() == ids
    broken(identity().predict, data)
    assert model.predict(data, verbose=0)[:, 0].tolist() == ids
    whole, part = model.evaluate(data, verbose=0), model.evaluate(data, steps=3, verbose=0)
    assert np.isclose(part, np.mean(np.square(ids[:96])), rtol=1e-4) and whole > 2 * part
    assert model.evaluate(data, steps=3, verbose=0) == part
    broken(identity().fit, data)
    val = fb.keras.batches(fb.Loader(sys.argv[1], columns=["id"], batch_size=32), x=x, y=nothing)
    found = model.fit(data, epochs=3, validation_data=val, validation_steps=3, verbose=0).history
    assert np.allclose(found["val_loss"], part, rtol=1e-4) and np.allclose(found["loss"], whole, rtol=1e-4), found
    # The same `fit` continues an epoch of fewer steps.
    found = model.fit(data, epochs=2, steps_per_epoch=16, verbose=0).history["loss"]
    assert np.isclose(found[0], np.mean(np.square(ids[:512])), rtol=1e-4) and found[1] > 2 * found[0], found
    print("called", keras.backend.backend())
"""


@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_each_call_of_keras_begins_at_the_front(plain: Path, backend: str) -> None:
    need_keras(backend)
    done = with_keras(backend, CALLS, plain)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"called {backend}"


@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_keras_weighs_rows_and_classes(photos: Path, backend: str) -> None:
    need_keras(backend)
    done = with_keras(backend, WEIGHTS, photos)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"weighed {backend}"


def test_jax_gets_arrays(plain: Path, photos: Path) -> None:
    jax = pytest.importorskip("jax")
    with small(plain) as train, small(plain) as again:
        for batch, arrays in zip(again, fb.jax.batches(train, device=jax.devices("cpu")[0]), strict=True):
            for name in ("id", "u8", "f16", "f32", "flag", "vector", "cell"):
                assert isinstance(arrays[name], jax.Array)
                assert np.asarray(arrays[name]).tolist() == batch[name].tolist()
            assert isinstance(arrays["words"], fb.Ragged)
            assert train.state_dict() == again.state_dict()
        mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("data",))
        columns = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "data"))
        with small(plain, columns=["vector"]) as matrices:
            assert next(iter(fb.jax.batches(matrices, sharding=columns)))["vector"].sharding == columns
        with pytest.raises(fb.InvalidError, match=r"column 'id', of shape \(64,\), cannot have NamedSharding.*rank") as caught:
            next(iter(fb.jax.batches(train, sharding=columns)))
        assert isinstance(caught.value.__cause__, ValueError)
        for wrong in ({"device": "cpu"}, {"sharding": 3}):
            with pytest.raises(fb.InvalidError, match=rf"{next(iter(wrong))} must be a jax\..*, got"):
                fb.jax.batches(train, **wrong)
    decode = {"image": fb.Image.resize(8, 8).dtype("bfloat16")}
    with fb.Loader(photos, decode=decode) as train:
        assert next(iter(fb.jax.batches(train)))["image"].dtype == jax.numpy.bfloat16


def test_tensorflow_gets_a_dataset(plain: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    with small(plain) as train, small(plain) as again:
        dataset = fb.tf.dataset(train)
        for _ in range(2):
            for batch, tensors in zip(again, dataset, strict=True):
                assert tensors["f32"].numpy().tolist() == batch["f32"].tolist()
                assert tensors["name"].numpy().tolist() == [name.encode() for name in batch["name"]]
                assert tensors["words"].to_list() == [list(row) for row in batch["words"]]
        for x, y in fb.tf.dataset(train, x=["f32", "vector"], y="id"):
            assert len(x) == 2
            assert y.dtype == tf.int64


def test_tensorflow_counts_what_the_step_got(plain: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    with small(plain) as train, small(plain) as again:
        for batch, tensors in zip(again, fb.tf.batches(train), strict=True):
            for name in ("id", "u8", "f16", "f32", "f64", "flag", "vector", "cell"):
                assert isinstance(tensors[name], tf.Tensor)
                assert tensors[name].numpy().tolist() == batch[name].tolist(), name
            assert tensors["name"].numpy().tolist() == [name.encode() for name in batch["name"]]
            assert tensors["words"].to_list() == [list(row) for row in batch["words"]]
            assert tensors["when"].dtype == tf.int64
            assert train.state_dict() == again.state_dict()
        kept = [y for _, y in fb.tf.batches(train, x=["f32"], y="id")]
        # The tensors keep their values after their batches are gone.
        assert sorted(row for y in kept for row in y.numpy().tolist()) == list(range(1000))
        with pytest.raises(fb.InvalidError, match="y was given without x"):
            fb.tf.batches(train, y="id")


def test_tensorflow_shares_memory_that_is_aligned_and_no_other() -> None:
    tf = pytest.importorskip("tensorflow")
    memory = np.zeros(1 << 12, np.uint8)
    start = -memory.ctypes.data % 64
    for offset, dtype, is_shared in ((0, "u1", True), (64, "f4", True), (0, "?", True), (8, "i8", False), (1, "u1", False)):
        array = memory[start + offset : start + offset + 1024].view(dtype)
        tensor = fb.tf._leaf(array)
        array[:] = 1
        assert tensor.dtype == tf.as_dtype(array.dtype)
        assert tensor.numpy().all() == is_shared, (offset, dtype)
        array[:] = 0
    whole = memory[start : start + 1024]
    others = {"not contiguous": whole[::2], "read only": whole.view(), "swapped": whole.view(">i4"), "text": np.array(["a"])}
    others["read only"].flags.writeable = False
    for name, array in others.items():
        assert fb.tf._leaf(array).shape == array.shape, name


def test_tensorflow_gets_images_without_a_copy(photos: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    arrays: list[Any] = []
    decode = {"image": fb.Image.resize(128, 128)}
    with fb.Loader(photos, decode=decode, batch_size=64, transform=lambda batch: arrays.append(batch["image"]) or batch) as train:
        for number, batch in enumerate(fb.tf.batches(train)):
            assert isinstance(batch["image"], tf.Tensor)
            arrays[number][0, 0, 0, 0] += 1
            assert batch["image"][0, 0, 0, 0].numpy() == arrays[number][0, 0, 0, 0]


def test_tensorflow_refuses_columns_by_name(plain: Path, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    for make in (fb.tf.batches, fb.tf.dataset):
        for picked in ({"x": "idd"}, {"x": {"a": "id"}, "y": ["idd"]}):
            with small(plain) as train, pytest.raises(fb.UnknownColumnError, match='no column "idd" .*id'):
                next(iter(make(train, **picked)))
    with small(plain, transform=lambda batch: {"made": batch["id"]}) as train:
        with pytest.raises(fb.UnknownColumnError, match='no column "id" .*made'):
            next(iter(fb.tf.batches(train, x="id")))
    table = {
        "id": range(8),
        "price": [Decimal(n) for n in range(8)],
        "words": [[n] * (n % 3) for n in range(8)],
        "cell": [{"a": n, "b": f"b {n}"} for n in range(8)],
        "name": [f"name {n}" for n in range(8)],
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet")

    def first(make: Any, window: fb.Window | None, *columns: str, **picked: Any) -> Any:
        with fb.Loader(tmp_path, columns=list(columns), samples=window, batch_size=4) as train:
            return next(iter(make(train, **picked)))

    for make in (fb.tf.batches, fb.tf.dataset):
        for window, names in ((None, ("price",)), (fb.Window(2), ("price", "words", "cell"))):
            for name in names:
                with pytest.raises(fb.UnsupportedError, match=f"column '{name}' has no TensorFlow type") as caught:
                    first(make, window, "id", name)
                assert caught.value.column == name
                x, y = first(make, window, "id", name, x="id", y="id")
                assert x.dtype == y.dtype == tf.int64, "what is not picked is not converted"
    cell = first(fb.tf.batches, None, "cell")["cell"]
    assert cell["a"].numpy().tolist() == [0, 1, 2, 3] and cell["b"].dtype == tf.string
    names = first(fb.tf.batches, fb.Window(2), "name")["name"]
    assert names.to_list()[3] == [b"name 3", b"name 4"]
    for name, window in (("cell", None), ("name", fb.Window(2))):
        with pytest.raises(fb.UnsupportedError, match=f"column '{name}'"):
            first(fb.tf.dataset, window, name)


@pytest.mark.parametrize(
    "framework",
    ["torch", "keras", "jax", "tensorflow", "lightning", "accelerate", "transformers", "ray", "pyspark", "mlflow", "tqdm", "rich"],
)
def test_a_missing_framework_is_named(framework: str) -> None:
    module = {"tensorflow": "tf", "transformers": "hf", "pyspark": "spark"}.get(framework, framework)
    script = (
        f"import sys; sys.modules[{framework!r}] = None\n"
        "import forebay as fb\n"
        f"try: fb.{module}\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert f"forebay.{module} needs" in done.stdout
    assert "pip install" in done.stdout


def test_a_framework_that_lacks_something_itself_says_what(tmp_path: Path) -> None:
    (tmp_path / "keras.py").write_text("import a_backend_that_is_absent")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import forebay as fb; fb.keras"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert "forebay.keras needs Keras 3, which cannot be imported: No module named 'a_backend" in done.stderr


def test_keras_2_is_told_that_it_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "keras.py").write_text("class utils: Sequence = object\n__version__ = '2.15.0'")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import forebay as fb; fb.keras"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    said = done.stderr.splitlines()[-1]
    assert "ImportError: forebay.keras needs Keras 3, and Keras 2.15.0 is installed (pip install 'keras>=3'" in said
    assert "forebay.tf.dataset(loader, x=..., y=...)" in said


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_keras_without_its_backend_says_how_to_choose_another(tmp_path: Path, backend: str) -> None:
    (tmp_path / "keras.py").write_text(f"import {backend}")
    (tmp_path / "jax.py").write_text("")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules[{backend!r}] = None\n"
        "import forebay as fb; fb.keras"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    said = done.stderr.splitlines()[-1]
    assert f"forebay.keras needs Keras 3, whose backend {backend} is not installed (set the environment" in said
    assert "KERAS_BACKEND=" in said and said.endswith(f" before Python imports keras, or pip install {backend})")


def test_importing_the_package_imports_no_framework() -> None:
    frameworks = {"torch", "keras", "jax", "tensorflow", "lightning", "accelerate", "transformers", "ray", "pyspark"}
    frameworks |= {"mlflow", "tqdm", "rich"}
    script = f"import sys, forebay; print({frameworks} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.strip() == "set()"
