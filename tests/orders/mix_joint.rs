//! Sources with the same packs make the batch of a step together. Each step must be the one of a mix whose
//! sources make a batch each, which are then joined.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{Array, ArrayRef, AsArray, Int64Array, Int64Builder, ListBuilder, RecordBatch};
use forebay::arrow::datatypes::{DataType, Int32Type, Int64Type};
use forebay::samples::Pack;
use forebay::{Dataset, Deny, Epoch, Loader, OnBadRow, Position, RowId, Shard, Shuffle, Stop};

use super::kit::{Draw, write_batch};

const CASES: u64 = 60;

/// Writes lists of numbers; `nulls` of a hundred lists have a null, which cannot be packed.
fn write(draw: &mut Draw, folder: &Path, rows: i64, nulls: u64) {
    let mut tokens = ListBuilder::new(Int64Builder::new());
    for n in 0..rows {
        tokens.values().append_slice(&vec![n; 1 + draw.below(8) as usize]);
        if draw.below(100) < nulls {
            tokens.values().append_null();
        }
        tokens.append(true);
    }
    let columns: [(&str, ArrayRef); 2] =
        [("n", Arc::new(Int64Array::from_iter_values(0..rows))), ("tokens", Arc::new(tokens.finish()))];
    std::fs::create_dir_all(folder).unwrap();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_batch(&folder.join("part.parquet"), &batch, 10 + draw.below(50) as usize);
}

/// All numbers of an array, and the length of each list in it.
fn flat(array: &dyn Array) -> Vec<i64> {
    let lists = |lists: Vec<ArrayRef>| {
        lists.iter().flat_map(|list| [vec![list.len() as i64], flat(list)].concat()).collect()
    };
    match array.data_type() {
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|n| (*n).into()).collect(),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
        DataType::FixedSizeList(..) => lists(array.as_fixed_size_list().iter().flatten().collect()),
        DataType::LargeList(_) => lists(array.as_list::<i64>().iter().flatten().collect()),
        other => panic!("{other}"),
    }
}

/// A mix that is drawn at random.
struct DrawnMix {
    sources: Vec<(Dataset, f64)>,
    pack: Pack,
    shuffle: Shuffle,
    on_bad_row: OnBadRow,
    stop: Stop,
    global_batch: u64,
    denied: Option<(u64, Deny)>,
}

impl DrawnMix {
    fn draw(draw: &mut Draw, folder: &Path) -> Self {
        let nulls = draw.below(3) * 4;
        let sources = (0..2 + draw.below(3)).map(|at| {
            let folder = folder.join(at.to_string());
            let rows = 30 + draw.below(200) as i64;
            write(draw, &folder, rows, nulls);
            (Dataset::open(folder).unwrap(), 1.0 + draw.below(5) as f64)
        });
        let sources = sources.collect();
        let pack = match draw.below(3) {
            0 => Pack::split(["tokens"], 16).value(-1.0),
            1 => Pack::best_fit(["tokens"], 12),
            _ => Pack::best_fit(["tokens"], 20).eos(-2.0),
        };
        let lanes = 1 + draw.below(3) as u32;
        let shuffle = Shuffle::seeded(draw.below(100)).window_rows(1 + draw.below(100)).lanes(lanes);
        let on_bad_row = match draw.below(3) {
            0 => OnBadRow::Raise,
            1 => OnBadRow::skip(10_000),
            _ => OnBadRow::refill(10_000),
        };
        let ids: Vec<RowId> = (0..30).filter(|_| draw.below(3) == 0).map(RowId::new).collect();
        let denied = (1 + draw.below(4), Deny::rows(ids));
        DrawnMix {
            sources,
            pack,
            shuffle,
            on_bad_row,
            stop: if draw.below(2) == 0 { Stop::First } else { Stop::Last },
            global_batch: 3 + draw.below(12),
            denied: (draw.below(3) == 0).then_some(denied),
        }
    }

    /// Builds the mix for a rank. With `apart`, one source makes its batches in another way, so that all make
    /// a batch each.
    fn built(&self, (rank, world): (u32, u32), apart: bool) -> Loader {
        let source = |(at, (dataset, weight)): (usize, &(Dataset, f64))| {
            let loader = dataset.loader().columns(["n", "tokens"]).samples(self.pack.clone());
            let loader = loader.shuffle(self.shuffle).row_id(true).on_bad_row(self.on_bad_row);
            let loader = match &self.denied {
                Some((from, deny)) => loader.deny_from(*from, deny.clone()),
                None => loader,
            };
            (if apart && at == 1 { loader.fill_null("n", 0) } else { loader }, *weight)
        };
        let mix = Loader::mix(self.sources.iter().enumerate().map(source)).unwrap();
        let mix = mix.source(true).stop(self.stop).global_batch_size(self.global_batch);
        mix.shard(Shard::new(rank, world).unwrap()).threads(2).memory(64 << 20).build().unwrap()
    }
}

/// A step: the row of the epoch that it reaches, and the numbers of each column.
type Step = (u64, Vec<Vec<i64>>);

/// The rest of an epoch: its steps, and then the bad rows or the error at its end.
fn rest(loader: &Loader, mut epoch: Epoch) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut ends) = (Vec::new(), Vec::new());
    for batch in epoch.by_ref() {
        match batch {
            Ok(batch) => {
                let columns = batch.columns().iter().map(|column| flat(column));
                steps.push((loader.position().row, columns.collect()));
            }
            Err(error) => ends.push(error.to_string()),
        }
    }
    ends.extend(epoch.skipped().iter().map(|bad| bad.error().to_string()));
    (steps, ends)
}

#[test]
fn a_step_that_is_made_together_is_the_one_of_sources_that_make_a_batch_each() {
    let mut draw = Draw(7);
    let (mut steps, mut errors, mut left_out) = (0, 0, 0);
    for number in 0..CASES {
        let folder = tempfile::tempdir().unwrap();
        let here = DrawnMix::draw(&mut draw, folder.path());
        let world = 1 + draw.below(3) as u32;
        for rank in 0..world {
            let place = format!("case {number}, rank {rank} of {world}");
            let [together, apart] = [false, true].map(|apart| here.built((rank, world), apart));
            let mut saved: Vec<Position> = Vec::new();
            for epoch in 0..2 {
                let [one, other] = [&together, &apart].map(|loader| rest(loader, loader.epoch(epoch)));
                assert_eq!(one, other, "{place}, epoch {epoch}");
                (steps, errors) = (steps + one.0.len(), errors + usize::from(one.0.is_empty()));
                left_out += one.1.len();
                saved.push(together.position());
            }
            let counts = [&together, &apart].map(|loader| {
                let stats = loader.stats();
                (stats.skipped_rows, stats.padded_rows)
            });
            assert_eq!(counts[0], counts[1], "{place}");
            // An epoch that is left, and begun again where it was left.
            let left = 1 + draw.below(4) as usize;
            let positions = [&together, &apart].map(|loader| {
                loader.epoch(0).take(left).for_each(drop);
                loader.position()
            });
            let [one, other] = [&together, &apart].map(|loader| {
                loader.restore(&positions[0]).unwrap();
                rest(loader, loader.epoch(positions[0].epoch))
            });
            assert_eq!(one, other, "{place}, resumed");
        }
    }
    assert!(
        steps > 1_000 && errors > 0 && left_out > 100,
        "{steps} steps, {errors} errors, {left_out} left out"
    );
}
