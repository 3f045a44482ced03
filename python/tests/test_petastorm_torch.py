"""PyTorch loaders over readers, and the methods that users override in subclasses."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay.petastorm import TransformSpec, make_batch_reader, make_reader
from forebay.petastorm.codecs import NdarrayCodec, ScalarCodec
from forebay.petastorm.predicates import in_set
from forebay.petastorm.unischema import Unischema, UnischemaField

torch = pytest.importorskip("torch")

from forebay.petastorm._shuffling import Tensors  # noqa: E402
from forebay.petastorm.pytorch import (  # noqa: E402
    BatchedDataLoader,
    DataLoader,
    InMemBatchedDataLoader,
    decimal_friendly_collate,
)

Pairs = Unischema(
    "Pairs",
    [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("pair", np.float32, (2,), NdarrayCodec(), False),
        UnischemaField("mask", np.bool_, (2,), NdarrayCodec(), False),
        UnischemaField("far", np.uint16, (2,), NdarrayCodec(), False),
    ],
)


@pytest.fixture(scope="module")
def rows_url(tmp_path_factory):
    url = f"file://{tmp_path_factory.mktemp('torch')}/rows"
    rows = (
        {
            "id": i,
            "pair": np.full(2, i, np.float32),
            "mask": np.array([True, False]),
            "far": np.full(2, 40000, np.uint16),
        }
        for i in range(50)
    )
    fb.petastorm.write(rows, Pairs, url, row_group_rows=8)
    return url


@pytest.fixture(scope="module")
def batches_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch")
    table = pa.table({"id": np.arange(50), "pair": [[i, i] for i in range(50)], "flag": np.arange(50) % 2 == 0})
    pq.write_table(table, folder / "a.parquet", row_group_size=8)
    return f"file://{folder}"


@pytest.fixture(params=["rows", "batches"])
def make(request, rows_url, batches_url):
    """Makes a reader of rows, or of batches, over the same numbers."""
    if request.param == "rows":
        return lambda **options: make_reader(rows_url, schema_fields=["id", "pair"], **options)
    return lambda **options: make_batch_reader(batches_url, schema_fields=["id", "pair"], **options)


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
def test_batches_have_so_many_rows_in_the_readers_order(make, kind):
    with kind(make(shuffle_row_groups=False), batch_size=16) as loader:
        batches = list(loader)
    assert [len(batch["id"]) for batch in batches] == [16, 16, 16, 2]
    assert torch.cat([batch["id"] for batch in batches]).tolist() == list(range(50))
    assert all(batch["pair"].shape == (len(batch["id"]), 2) for batch in batches)
    assert all((batch["pair"][:, 1] == batch["id"]).all() for batch in batches)


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
@pytest.mark.parametrize("capacity", [1, 10, 1000])
def test_a_buffer_mixes_rows_and_loses_none(make, kind, capacity):
    np.random.seed(1)
    torch.manual_seed(1)
    with kind(make(shuffle_row_groups=False), batch_size=7, shuffling_queue_capacity=capacity) as loader:
        batches = list(loader)
    found = torch.cat([batch["id"] for batch in batches]).tolist()
    assert sorted(found) == list(range(50)) and [len(batch["id"]) for batch in batches][:-1] == [7] * 7
    assert found != list(range(50)) or capacity == 1
    assert all((batch["pair"][:, 0] == batch["id"]).all() for batch in batches)


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
def test_a_batch_has_a_row_at_least(make, kind):
    with make() as reader, pytest.raises(ValueError, match="batch_size must be an int of at least 1, got 0"):
        kind(reader, batch_size=0)


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
def test_a_second_pass_resets_the_reader_and_two_at_once_are_refused(make, kind):
    with kind(make(), batch_size=10) as loader:
        first = iter(loader)
        next(first)
        with pytest.raises(RuntimeError, match="You must finish a full pass of Petastorm DataLoader .* one is under way"):
            next(iter(loader))
        assert len(list(first)) == 4
        assert sorted(torch.cat([batch["id"] for batch in loader]).tolist()) == list(range(50))


def test_a_pass_after_one_that_failed_is_refused(make):
    class Fails(DataLoader):
        def _iter_impl(self):
            yield 1
            raise KeyError("mine")

    loader = Fails(make())
    with pytest.raises(KeyError):
        list(loader)
    with pytest.raises(RuntimeError, match="the last pass failed with KeyError"):
        list(loader)


def test_classes_of_users_override_how_batches_are_made(make):
    class Halves(DataLoader):
        def _yield_batches(self, keys):
            for batch in super()._yield_batches(keys):
                yield {name: column[: len(column) // 2] for name, column in batch.items()}

    with Halves(make(shuffle_row_groups=False), 10, collate_fn=decimal_friendly_collate) as loader:
        assert [batch["id"].tolist() for batch in loader][1] == [10, 11, 12, 13, 14]
    with DataLoader(make(), batch_size=5, collate_fn=len) as loader:
        assert list(loader) == [5] * 10
    with BatchedDataLoader(make(), 5, transform_fn=lambda values: torch.as_tensor(values) * 2) as loader:
        assert sum(batch["id"].sum() for batch in loader) == 2 * sum(range(50))


def test_contexts_are_entered_by_hand(make):
    reader = make(num_epochs=None)
    loader = DataLoader(reader, batch_size=10)
    entered = loader.__enter__()
    batches = iter(entered)
    assert sum(len(next(batches)["id"]) for _ in range(20)) == 200
    loader.__exit__(None, None, None)
    assert reader.stopped


def test_types_that_torch_had_not_become_larger_ones(rows_url, batches_url):
    for kind in (DataLoader, BatchedDataLoader):
        with kind(make_reader(rows_url), batch_size=4) as loader:
            batch = next(iter(loader))
        assert (batch["mask"].dtype, batch["far"].dtype) == (torch.uint8, torch.int32)
        assert batch["far"].tolist() == [[40000, 40000]] * 4
    with BatchedDataLoader(make_batch_reader(batches_url), batch_size=4) as loader:
        assert next(iter(loader))["flag"].dtype == torch.uint8


def test_text_objects_and_nulls_are_refused_by_name(tmp_path):
    pq.write_table(pa.table({"text": ["a"], "bytes": [b"a"]}), tmp_path / "a.parquet")
    for name in ("text", "bytes"):
        with DataLoader(make_batch_reader(f"file://{tmp_path}", schema_fields=[name])) as loader:
            with pytest.raises(TypeError, match=f"Found in field {name}"):
                next(iter(loader))
    schema = Unischema("S", [UnischemaField("x", np.int32, (), ScalarCodec("IntegerType"), True)])
    fb.petastorm.write([{"x": None}], schema, f"file://{tmp_path}/nulls")
    with DataLoader(make_reader(f"file://{tmp_path}/nulls")) as loader:
        with pytest.raises(TypeError, match="Found None in x"):
            next(iter(loader))


def test_decimals_and_text_are_collated_as_lists():
    rows = [{"price": decimal.Decimal(1), "name": "a", "x": 1.5}, {"price": decimal.Decimal(2), "name": "b", "x": 2.5}]
    batch = decimal_friendly_collate(rows)
    assert batch["price"] == [decimal.Decimal(1), decimal.Decimal(2)] and batch["name"] == ["a", "b"]
    assert batch["x"].tolist() == [1.5, 2.5]
    assert decimal_friendly_collate([(1, "a"), (2, "b")])[1] == ("a", "b")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float64"])
def test_arrays_are_collated_as_torch_does_it(dtype):
    rows = [np.arange(6).reshape(2, 3).T.astype(dtype), np.ones((3, 2), dtype)]
    for given in (rows, rows[:1]):
        found, expected = decimal_friendly_collate(given), torch.utils.data.default_collate(given)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape) and torch.equal(found, expected)
    with pytest.raises(RuntimeError, match="stack"):
        decimal_friendly_collate([rows[0], rows[0][:2]])


def in_memory(reader, **options):
    with InMemBatchedDataLoader(reader, batch_size=10, rows_capacity=100, **options) as loader:
        assert reader.stopped
        return list(loader)


def test_rows_in_memory_come_in_each_epoch(make):
    batches = in_memory(make(shuffle_row_groups=False), num_epochs=2)
    assert [len(batch["id"]) for batch in batches] == [10] * 10
    ids = torch.cat([batch["id"] for batch in batches])
    assert ids.tolist() == [*range(50), *range(50)]
    assert batches[1]["pair"].tolist() == [[i, i] for i in range(10, 20)]


def test_rows_in_memory_are_mixed_for_each_epoch_by_a_seed(make):
    def orders(seed):
        batches = in_memory(make(shuffle_row_groups=False), num_epochs=2, shuffle=True, seed=seed)
        assert all((batch["pair"][:, 0] == batch["id"]).all() for batch in batches)
        ids = torch.cat([batch["id"] for batch in batches]).tolist()
        return ids[:50], ids[50:]

    first, second = orders(3)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    assert orders(3) == (first, second) and orders(4)[0] == second


@pytest.mark.parametrize(("capacity", "rows"), [(1, 1), (13, 13), (49, 49), (50, 50), (51, 50)])
def test_rows_that_do_not_fit_in_memory_are_a_warning(make, caplog, capacity, rows):
    loader = InMemBatchedDataLoader(make(shuffle_row_groups=False), batch_size=7, rows_capacity=capacity)
    assert [one for batch in loader for one in batch["id"].tolist()] == list(range(rows))
    assert (f"only the first {capacity} rows are kept" in caplog.text) == (capacity < 50)
    with pytest.raises(RuntimeError, match=r"multiple times \(pass it num_epochs="):
        next(iter(loader))


def test_no_row_at_all_is_an_epoch_without_batches(rows_url):
    with pytest.warns(UserWarning, match="No matching data"):
        loader = InMemBatchedDataLoader(make_reader(rows_url, predicate=in_set({-1}, "id")))
    assert list(loader) == []


def test_a_function_feeds_a_training_loop(batches_url):
    spec = TransformSpec(
        lambda frame: frame.assign(x=[np.asarray(pair, np.float32) / 50 for pair in frame["pair"]]),
        edit_fields=[("x", np.float32, (2,), False)],
        selected_fields=["x", "id"],
    )
    model = torch.nn.Linear(2, 1)
    with BatchedDataLoader(make_batch_reader(batches_url, transform_spec=spec, num_epochs=2), 10) as loader:
        for batch in loader:
            model(batch["x"]).mean().backward()
    assert model.weight.grad is not None


@pytest.mark.parametrize("batch_size", [1, 4, 5, 7, 100])
def test_batches_of_a_buffer_have_all_rows_in_order_over_the_ends_of_additions(batch_size):
    buffer, found, start = Tensors(0, batch_size), [], 0
    for rows in (10, 0, 3, 12, 1, 1, 20):
        buffer.add_many([torch.arange(start, start + rows), torch.arange(start, start + rows)[:, None] * 2])
        start += rows
        while buffer.can_retrieve():
            found.append(buffer.retrieve())
    buffer.finish()
    while buffer.can_retrieve():
        found.append(buffer.retrieve())
    assert {len(ids) for ids, _ in found[:-1]} <= {batch_size}
    assert torch.cat([ids for ids, _ in found]).tolist() == list(range(47))
    assert all((twice[:, 0] == 2 * ids).all() for ids, twice in found)


def test_a_mixed_buffer_draws_each_row_once_while_rows_are_added():
    torch.manual_seed(0)
    buffer, found = Tensors(30, 8), []
    for start in range(0, 200, 20):
        buffer.add_many([torch.arange(start, start + 20)])
        while buffer.can_retrieve():
            found.append(buffer.retrieve()[0])
    buffer.finish()
    while buffer.can_retrieve():
        found.append(buffer.retrieve()[0])
    drawn = torch.cat(found).tolist()
    assert sorted(drawn) == list(range(200)) != drawn and max(drawn[:8]) < 40
