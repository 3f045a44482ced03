//! Compares the samples of a stored order with models that know nothing of the plan: windows are tried at
//! every row, packs and buckets are made by looking at all that there are.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListBuilder, PrimitiveBuilder, RecordBatch,
};
use forebay::arrow::datatypes::{Int32Type, Int64Type};
use forebay::filter::col;
use forebay::samples::{Across, Bucket, Pack, Samples, Window};
use forebay::{Dataset, Deny, ErrorKind, RowId, Shuffle};

use super::kit::{Draw, write_batch};

const CASES: u64 = 220;

/// The value that fills up packs, and the marks before and after a list. No row has one of these numbers.
const VALUE: i64 = -3;
const BOS: i64 = -1;
const EOS: i64 = -2;

/// A stored row, as the models see it.
#[derive(Clone, Debug)]
struct StoredRow {
    /// The file and the row group, both numbered through the data set, and the year in the name of the
    /// file's folder.
    file: usize,
    group: usize,
    year: u64,
    /// The number of the row, from 1.
    n: i64,
    /// A time that ascends through the data set, with equal neighbours and nulls.
    time: Option<i64>,
    /// The episode of the row. All rows of an episode follow each other.
    episode: Option<i64>,
    /// A time that begins anew with each episode.
    since: i64,
    /// The number of tokens in the row's list, each of which is the number of the row.
    tokens: usize,
}

/// Draws the rows of one to four files in folders of one or two years. Each file has row groups of its own
/// size, the last of which is shorter.
fn draw_rows(draw: &mut Draw) -> Vec<StoredRow> {
    let (mut rows, mut group) = (Vec::new(), 0);
    let (mut n, mut time, mut episode, mut since) = (0, 0, 0, 0);
    let files = 1 + draw.below(4) as usize;
    let change = draw.below(files as u64 + 2) as usize;
    for file in 0..files {
        let (count, size) = (1 + draw.below(50), 1 + draw.below(25));
        for row in 0..count {
            group += usize::from(row == 0 || row % size == 0);
            n += 1;
            time += draw.below(4).saturating_sub(1) as i64;
            since += draw.below(3) as i64;
            if draw.below(9) == 0 {
                (episode, since) = (episode + 1, draw.below(3) as i64);
            }
            rows.push(StoredRow {
                file,
                group,
                year: if file < change { 2024 } else { 2025 },
                n,
                time: (draw.below(25) > 0).then_some(time),
                episode: (draw.below(30) > 0).then_some(episode),
                since,
                tokens: draw.below(9) as usize,
            });
        }
    }
    rows
}

fn write(rows: &[StoredRow], folder: &Path) {
    for of_file in rows.chunk_by(|one, other| one.file == other.file) {
        let first = &of_file[0];
        let size = of_file.iter().take_while(|row| row.group == first.group).count();
        let mut tokens = ListBuilder::new(PrimitiveBuilder::<Int64Type>::new());
        for row in of_file {
            tokens.values().append_slice(&vec![row.n; row.tokens]);
            tokens.append(true);
        }
        let columns: [(&str, ArrayRef); 5] = [
            ("n", Arc::new(Int64Array::from_iter_values(of_file.iter().map(|row| row.n)))),
            ("time", Arc::new(Int64Array::from_iter(of_file.iter().map(|row| row.time)))),
            ("episode", Arc::new(Int64Array::from_iter(of_file.iter().map(|row| row.episode)))),
            ("since", Arc::new(Int64Array::from_iter_values(of_file.iter().map(|row| row.since)))),
            ("tokens", Arc::new(tokens.finish())),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let year = folder.join(format!("year={}", first.year));
        std::fs::create_dir_all(&year).unwrap();
        write_batch(&year.join(format!("part-{}.parquet", first.file)), &batch, size);
    }
}

/// Divides the rows into runs that a sample does not leave.
fn runs(rows: &[StoredRow], across: Across) -> Vec<&[StoredRow]> {
    let may_follow = |one: &StoredRow, other: &StoredRow| match across {
        Across::RowGroup => one.group == other.group,
        Across::File => one.file == other.file,
        Across::Dataset => one.year == other.year,
        other => panic!("{other:?} has no model"),
    };
    rows.chunk_by(may_follow).collect()
}

/// The order by which the rows of a window ascend.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Nothing,
    Time,
    Since,
}

impl By {
    fn number(self, row: &StoredRow) -> Option<i64> {
        match self {
            By::Nothing => Some(0),
            By::Time => row.time,
            By::Since => Some(row.since),
        }
    }
}

#[derive(Clone, Debug)]
struct WindowModel {
    length: usize,
    /// The rows of a window that are delivered.
    delivered: Vec<usize>,
    /// The number of rows that windows share, if it is given.
    overlap: Option<usize>,
    by: By,
    gap: Option<i64>,
    is_within: bool,
    across: Across,
}

impl WindowModel {
    fn draw(draw: &mut Draw) -> (Self, Samples) {
        let (rows, stride) = (1 + draw.below(6) as usize, 1 + draw.below(3) as usize);
        let is_strided = draw.below(4) == 0;
        let (length, delivered, mut window) = match (is_strided, draw.below(3)) {
            (true, _) => {
                let delivered = (0..rows).map(|row| row * stride).collect();
                ((rows - 1) * stride + 1, delivered, Window::rows(rows as u32).stride(stride as u32))
            }
            (false, 0) => {
                let listed: BTreeSet<usize> = [0, draw.below(5) as usize, rows].into();
                let fields = listed.iter().map(|row| (*row as i64 - 2, vec!["n"]));
                (listed.last().unwrap() + 1, listed.iter().copied().collect(), Window::offsets(fields))
            }
            (false, _) => (rows, (0..rows).collect(), Window::rows(rows as u32)),
        };
        assert_eq!(window.length() as usize, length);
        let overlap = (draw.below(3) > 0).then(|| match draw.below(2) {
            0 => 0,
            _ => draw.below(length as u64) as usize,
        });
        let is_within = draw.below(2) == 0;
        let by = match draw.below(3) {
            0 => By::Nothing,
            1 if is_within => By::Since,
            _ => By::Time,
        };
        let gap = (by != By::Nothing && draw.below(2) == 0).then(|| draw.below(3) as i64);
        let across = [Across::RowGroup, Across::File, Across::Dataset][draw.below(3) as usize];
        window = overlap.map_or(window.clone(), |overlap| window.overlap(overlap as u32));
        window = match by {
            By::Nothing => window,
            By::Time => window.by("time"),
            By::Since => window.by("since"),
        };
        window = gap.map_or(window.clone(), |gap| window.gap(gap as f64));
        window = if is_within { window.within("episode") } else { window };
        let model = WindowModel { length, delivered, overlap, by, gap, is_within, across };
        (model, window.across(across).into())
    }

    /// Whether the rows can be a window.
    fn is_window(&self, rows: &[StoredRow]) -> bool {
        let can_be_in =
            |row: &StoredRow| self.by.number(row).is_some() && (!self.is_within || row.episode.is_some());
        let follow = |pair: &[StoredRow]| {
            let step = self.by.number(&pair[1]).unwrap() - self.by.number(&pair[0]).unwrap();
            self.gap.is_none_or(|gap| step <= gap) && (!self.is_within || pair[0].episode == pair[1].episode)
        };
        rows.iter().all(can_be_in) && rows.windows(2).all(follow)
    }

    /// The windows of these rows, as the numbers of the delivered rows.
    fn windows(&self, rows: &[StoredRow]) -> Vec<Vec<i64>> {
        let step = self.length - self.overlap.unwrap_or(self.length - 1);
        let mut found: Vec<Vec<i64>> = Vec::new();
        for run in runs(rows, self.across) {
            // The first row of the window before.
            let mut before: Option<usize> = None;
            for at in 0..(run.len() + 1).saturating_sub(self.length) {
                if !self.is_window(&run[at..at + self.length]) {
                    continue;
                }
                // Windows are counted anew after rows that cannot be in one window.
                let is_counted = before.filter(|before| self.is_window(&run[*before..=at]));
                if let Some(before) = is_counted {
                    let last = &run[before + self.length - 1];
                    let is_due = match self.overlap {
                        Some(0) => at >= before + step && self.is_after(&run[at], last),
                        _ => (at - before).is_multiple_of(step),
                    };
                    if !is_due {
                        continue;
                    }
                }
                before = Some(at);
                found.push(self.delivered.iter().map(|row| run[at + row].n).collect());
            }
        }
        found
    }

    /// Whether a window may begin with `row` if the one before ends with `last` and they share no rows.
    fn is_after(&self, row: &StoredRow, last: &StoredRow) -> bool {
        self.by == By::Nothing || self.by.number(row) > self.by.number(last)
    }
}

/// A pack: its tokens, the number of the list of each token, and the position of each token in its piece.
type PackOfModel = (Vec<i64>, Vec<i32>, Vec<i32>);

#[derive(Clone, Debug)]
struct PackModel {
    length: usize,
    /// How far lists are joined and cut; `None` if they are kept whole.
    joined: Option<Across>,
    is_split_long: bool,
    is_truncated: bool,
    bos: bool,
    eos: bool,
}

impl PackModel {
    fn draw(draw: &mut Draw) -> (Self, Samples) {
        let joined = match draw.below(2) {
            0 => Some([Across::RowGroup, Across::File, Across::Dataset][draw.below(3) as usize]),
            _ => None,
        };
        let form = draw.below(3);
        let least = if joined.is_none() && form == 0 { 10 } else { 1 };
        let length = least + draw.below(20) as usize;
        let (bos, eos) = (draw.below(3) == 0, draw.below(3) == 0);
        let pack = match joined {
            Some(across) => Pack::split(["tokens"], length as u32).across(across),
            None => Pack::best_fit(["tokens"], length as u32),
        };
        let (is_split_long, is_truncated) = (joined.is_none() && form == 1, joined.is_none() && form == 2);
        let pack = if is_split_long { pack.split_long(true) } else { pack };
        let pack = if is_truncated { pack.truncate(true) } else { pack };
        let pack = if bos { pack.bos(BOS as f64) } else { pack };
        let pack = if eos { pack.eos(EOS as f64) } else { pack };
        let model = PackModel { length, joined, is_split_long, is_truncated, bos, eos };
        (model, pack.value(VALUE as f64).into())
    }

    /// The list of a row with the marks before and after it.
    fn list(&self, row: &StoredRow) -> Vec<i64> {
        if row.tokens == 0 {
            return Vec::new();
        }
        let mut list = vec![BOS; usize::from(self.bos)];
        list.extend(vec![row.n; row.tokens]);
        list.extend(vec![EOS; usize::from(self.eos)]);
        if self.is_truncated {
            // A list that is cut off does not end in its pack.
            let is_cut = list.len() > self.length;
            list.truncate(if is_cut {
                self.length.min(list.len() - usize::from(self.eos))
            } else {
                list.len()
            });
        }
        list
    }

    /// Makes a pack of pieces of lists.
    fn pack(&self, pieces: &[Vec<i64>]) -> PackOfModel {
        let (mut tokens, mut segments, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (number, piece) in (1..).zip(pieces) {
            tokens.extend(piece);
            segments.extend(vec![number; piece.len()]);
            positions.extend(0..piece.len() as i32);
        }
        let room = self.length - tokens.len();
        tokens.extend(vec![VALUE; room]);
        segments.extend(vec![0; room]);
        positions.extend(0..room as i32);
        (tokens, segments, positions)
    }

    fn packs(&self, rows: &[StoredRow]) -> Vec<PackOfModel> {
        match self.joined {
            Some(across) => runs(rows, across).into_iter().flat_map(|run| self.cut(run)).collect(),
            None => runs(rows, Across::RowGroup).into_iter().flat_map(|group| self.best_fit(group)).collect(),
        }
    }

    /// Puts all lists one after the other, and cuts the result.
    fn cut(&self, run: &[StoredRow]) -> Vec<PackOfModel> {
        let tokens = run.iter().flat_map(|row| self.list(row).into_iter().map(|token| (row.n, token)));
        let tokens: Vec<(i64, i64)> = tokens.collect();
        let pack = |tokens: &[(i64, i64)]| {
            let pieces = tokens.chunk_by(|one, other| one.0 == other.0);
            let pieces: Vec<Vec<i64>> =
                pieces.map(|piece| piece.iter().map(|(_, token)| *token).collect()).collect();
            self.pack(&pieces)
        };
        tokens.chunks(self.length).map(pack).collect()
    }

    /// Looks for the pack with the least room for each list, the longest list first.
    fn best_fit(&self, group: &[StoredRow]) -> Vec<PackOfModel> {
        // The pieces of each pack, with the row and the place in its list where each begins.
        let mut packs: Vec<Vec<(usize, usize, Vec<i64>)>> = Vec::new();
        let mut rests: Vec<(usize, usize, Vec<i64>)> = Vec::new();
        for (row, stored) in group.iter().enumerate() {
            let list = self.list(stored);
            let is_long = self.is_split_long && list.len() > self.length;
            let filled = if is_long { list.len() / self.length * self.length } else { 0 };
            for from in (0..filled).step_by(self.length) {
                packs.push(vec![(row, from, list[from..from + self.length].to_vec())]);
            }
            rests.push((row, filled, list[filled..].to_vec()));
        }
        let alone = packs.len();
        rests.retain(|(.., rest)| !rest.is_empty());
        rests.sort_by_key(|(.., rest)| std::cmp::Reverse(rest.len()));
        for rest in rests {
            let room = |pack: &Vec<(usize, usize, Vec<i64>)>| {
                self.length - pack.iter().map(|(.., piece)| piece.len()).sum::<usize>()
            };
            let fitting = packs.iter_mut().skip(alone).filter(|pack| room(pack) >= rest.2.len());
            match fitting.min_by_key(|pack| room(pack)) {
                Some(pack) => pack.push(rest),
                None => packs.push(vec![rest]),
            }
        }
        packs.iter_mut().for_each(|pack| pack.sort_unstable());
        packs.sort_unstable();
        let pieces = |pack: Vec<(usize, usize, Vec<i64>)>| -> Vec<Vec<i64>> {
            pack.into_iter().map(|(.., piece)| piece).collect()
        };
        packs.into_iter().map(|pack| self.pack(&pieces(pack))).collect()
    }
}

#[derive(Clone, Debug)]
struct BucketModel {
    rows: Option<usize>,
    tokens: Option<usize>,
}

impl BucketModel {
    fn draw(draw: &mut Draw) -> (Self, Samples) {
        // No list is longer than 8, and each must fit a bucket.
        let (rows, tokens) = (1 + draw.below(7) as usize, 8 + draw.below(33) as usize);
        let (model, bucket) = match draw.below(3) {
            0 => (BucketModel { rows: Some(rows), tokens: None }, Bucket::rows("tokens", rows as u32)),
            1 => (BucketModel { rows: None, tokens: Some(tokens) }, Bucket::tokens("tokens", tokens as u64)),
            _ => (
                BucketModel { rows: Some(rows), tokens: Some(tokens) },
                Bucket::tokens("tokens", tokens as u64).max_rows(rows as u32),
            ),
        };
        (model, bucket.into())
    }

    fn fits(&self, bucket: &[&StoredRow]) -> bool {
        let longest = bucket.iter().map(|row| row.tokens).max().unwrap_or(0);
        self.rows.is_none_or(|most| bucket.len() <= most)
            && self.tokens.is_none_or(|most| longest * bucket.len() <= most)
    }

    /// Sorts the rows of each row group by length, and adds each to the bucket before as long as it fits.
    fn buckets(&self, rows: &[StoredRow]) -> Vec<Vec<i64>> {
        let mut found = Vec::new();
        for group in runs(rows, Across::RowGroup) {
            let mut sorted: Vec<&StoredRow> = group.iter().collect();
            sorted.sort_by_key(|row| (row.tokens, row.n));
            let mut buckets: Vec<Vec<&StoredRow>> = Vec::new();
            for row in sorted {
                let with_it = buckets.last().map(|last| [last.as_slice(), &[row]].concat());
                match with_it.filter(|bucket| self.fits(bucket)) {
                    Some(bucket) => *buckets.last_mut().unwrap() = bucket,
                    None => buckets.push(vec![row]),
                }
            }
            let numbers = |bucket: Vec<&StoredRow>| {
                let mut numbers: Vec<i64> = bucket.iter().map(|row| row.n).collect();
                numbers.sort_unstable();
                numbers
            };
            found.extend(buckets.into_iter().map(numbers));
        }
        found
    }
}

#[derive(Clone, Debug)]
enum SampleModel {
    Windows(WindowModel),
    Packs(PackModel),
    Buckets(BucketModel),
}

impl SampleModel {
    fn draw(draw: &mut Draw) -> (Self, Samples) {
        match draw.below(5) {
            0 | 1 => {
                let (model, samples) = WindowModel::draw(draw);
                (SampleModel::Windows(model), samples)
            }
            2 | 3 => {
                let (model, samples) = PackModel::draw(draw);
                (SampleModel::Packs(model), samples)
            }
            _ => {
                let (model, samples) = BucketModel::draw(draw);
                (SampleModel::Buckets(model), samples)
            }
        }
    }

    /// The samples of these rows. Windows and buckets have no segments and positions.
    fn samples(&self, rows: &[StoredRow]) -> Vec<PackOfModel> {
        let alone = |rows: Vec<i64>| (rows, Vec::new(), Vec::new());
        match self {
            SampleModel::Windows(windows) => windows.windows(rows).into_iter().map(alone).collect(),
            SampleModel::Packs(packs) => packs.packs(rows),
            SampleModel::Buckets(buckets) => buckets.buckets(rows).into_iter().map(alone).collect(),
        }
    }

    /// The one sample of a batch, in the same form.
    fn delivered(&self, batch: &RecordBatch) -> PackOfModel {
        let numbers = |name: &str| {
            let lists = batch[name].as_fixed_size_list();
            assert_eq!(lists.len(), 1, "a batch is one sample");
            lists.values().clone()
        };
        let ids = |name: &str| numbers(name).as_primitive::<Int32Type>().values().to_vec();
        let wide = |name: &str| numbers(name).as_primitive::<Int64Type>().values().to_vec();
        match self {
            SampleModel::Windows(_) => (wide("n"), Vec::new(), Vec::new()),
            SampleModel::Packs(_) => (wide("tokens"), ids("segment_ids"), ids("position_ids")),
            SampleModel::Buckets(_) => {
                (batch["n"].as_primitive::<Int64Type>().values().to_vec(), Vec::new(), Vec::new())
            }
        }
    }
}

/// The id of each row, by its number.
fn ids(dataset: &Dataset) -> HashMap<i64, RowId> {
    let loader = dataset.loader().columns(["n"]).row_id(true).build().unwrap();
    let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
    let column = |batch: &RecordBatch, name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
    let pairs = batches.iter().flat_map(|batch| {
        let ids = column(batch, "row_id").into_iter().map(RowId::new);
        column(batch, "n").into_iter().zip(ids).collect::<Vec<_>>()
    });
    pairs.collect()
}

/// Every sample of the stored order is the one that the model finds at its place, with a filter, two lists of
/// denied values and denied row ids in any combination.
#[test]
fn samples_are_those_of_a_model_that_knows_no_plan() {
    let mut draw = Draw(211);
    let mut checked = [0; 3];
    for case in 0..CASES {
        let folder = tempfile::tempdir().unwrap();
        let rows = draw_rows(&mut draw);
        write(&rows, folder.path());
        let dataset = Dataset::open(folder.path()).unwrap();
        let (model, samples) = SampleModel::draw(&mut draw);
        let mut builder = dataset.loader().samples(samples).shuffle(Shuffle::stored()).global_batch_size(1);
        if !matches!(model, SampleModel::Packs(_)) {
            builder = builder.columns(["n"]);
        }
        let is_filtered = draw.below(2) == 0;
        if is_filtered {
            builder = builder.filter((col("n") % 7).not_eq(3));
        }
        let mut denied: BTreeSet<i64> = BTreeSet::new();
        if draw.below(2) == 0 {
            let ids = ids(&dataset);
            let mut some =
                || -> Vec<i64> { (0..3).map(|_| 1 + draw.below(rows.len() as u64) as i64).collect() };
            let (first, second, by_id) = (some(), some(), some());
            let deny = Deny::values("n", first.clone()).and(Deny::values("n", second.clone()));
            builder = builder.deny(deny.and(Deny::rows(by_id.iter().map(|n| ids[n]))));
            denied.extend([first, second, by_id].concat());
        }
        let is_left = |row: &&StoredRow| !denied.contains(&row.n) && (!is_filtered || row.n % 7 != 3);
        let left: Vec<StoredRow> = rows.iter().filter(is_left).cloned().collect();
        let expected = model.samples(&left);
        let place = format!("case {case}: {model:?}");
        let loader = match builder.build() {
            Ok(loader) => loader,
            Err(error) => {
                assert!(expected.is_empty(), "{place}: {error}");
                assert_eq!(error.kind(), ErrorKind::Invalid, "{place}: {error}");
                continue;
            }
        };
        assert_eq!(loader.len(), expected.len() as u64, "{place}");
        for epoch in [0, 2] {
            let found = loader.epoch(epoch).map(|batch| model.delivered(&batch.unwrap()));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{place}, epoch {epoch}");
        }
        checked[match model {
            SampleModel::Windows(_) => 0,
            SampleModel::Packs(_) => 1,
            SampleModel::Buckets(_) => 2,
        }] += expected.len();
    }
    assert!(checked.iter().all(|samples| *samples > 500), "{checked:?} samples were compared");
}
