//! Feeds GPU training straight from Parquet.
//!
//! forebay reads Parquet files as they are, from a disk or an object store. It shuffles their rows, decodes
//! their images, and delivers equal batches to every process of a training run, as Arrow [`RecordBatch`]es.
//! The order of the rows is a function of the data and a seed, so a run can be repeated, interrupted, and
//! resumed on another number of processes.
//!
//! # Example
//!
//! ```
//! use forebay::{Dataset, Shard, Shuffle};
//! # use std::sync::Arc;
//! # use forebay::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! # use forebay::parquet::arrow::ArrowWriter;
//! # let folder = std::env::temp_dir().join(format!("forebay-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
//! # let texts = StringArray::from_iter_values((0..1_000).map(|id| format!("text {id}")));
//! # let rows = RecordBatch::try_from_iter([("label", ids), ("text", Arc::new(texts) as ArrayRef)])?;
//! # let file = std::fs::File::create(folder.join("a.parquet"))?;
//! # let mut writer = ArrowWriter::try_new(file, rows.schema(), None)?;
//! # writer.write(&rows)?;
//! # writer.close()?;
//!
//! let dataset = Dataset::open(&folder)?; // a path, a URL, a glob, or a list of them
//! let loader = dataset
//!     .loader()
//!     .columns(["text", "label"])
//!     .shuffle(Shuffle::seeded(17))
//!     .shard(Shard::new(0, 2)?) // rank 0 of 2 processes
//!     .batch_size(64)
//!     .build()?;
//!
//! assert_eq!(loader.len(), 8); // steps of 2 x 64 rows for 1,000 rows
//! for batch in loader.epoch(0) {
//!     let batch = batch?;
//!     assert_eq!(batch.num_columns(), 2);
//! }
//! # drop(loader);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With a column of encoded images, one more line decodes, crops and flips them:
//!
//! ```no_run
//! use forebay::{Dataset, Image, Shuffle};
//!
//! let loader = Dataset::open("s3://acme/imagenet/train/")?
//!     .loader()
//!     .columns(["image", "label"])
//!     .decode("image", Image::random_resized_crop(224).flip())
//!     .shuffle(Shuffle::seeded(17))
//!     .batch_size(256)
//!     .build()?;
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! # Four types to start with
//!
//! * [`Dataset`] is a set of Parquet files whose footers were read. It is cheap to clone, and any number of
//!   loaders can share it.
//! * [`LoaderBuilder`] has the options of a training run: columns, order, batch size, memory.
//!   [`build`](LoaderBuilder::build) checks them, and starts the threads of a [`Loader`].
//! * [`Epoch`] is an iterator of batches: one pass over the data.
//! * [`Image`] describes how encoded images become arrays of pixels.
//!
//! # All public types
//!
//! | job | types |
//! |---|---|
//! | open | [`Dataset`], [`OpenOptions`], [`Locations`], [`IndexReport`] |
//! | choose rows | [`Filter`], with its parts in [`filter`]; [`Deny`] for single ones, by [`RowId`] or value |
//! | choose columns | [`Image`], with its parts in [`image`](mod@image); what else a column may be delivered as, in [`column`](mod@column): boxes, keypoints and masks of an image, tensors, text, codes, padded lists, values for nulls, and decoders of your own; [`Flatten`] |
//! | make samples | [`samples`]: windows of rows, packs, buckets, rows that are drawn by weight |
//! | order | [`Shuffle`] |
//! | mix several data sets | [`Loader::mix`], with [`Stop`] |
//! | share among processes | [`Shard`] |
//! | load | [`LoaderBuilder`], [`Loader`], [`Epoch`]; with a timeout, [`Wait`], [`Step`] and [`Receipt`] |
//! | all options as one value | [`LoaderSpec`], [`column::ColumnSpec`], [`CacheSpec`] |
//! | see the plan | [`plan`]: what a rank would read, and the order as arithmetic |
//! | resume | [`Position`] |
//! | find the file and the row behind a delivered row | [`Rewind`], [`RowPlace`] |
//! | bad rows | [`OnBadRow`], [`BadRow`] |
//! | cache | [`DiskCache`], [`Tier`] |
//! | measure | [`Stats`], with its parts in [`stats`] |
//! | read schemas of Petastorm | [`petastorm`] |
//! | store JPEGs as coefficients | [`repack`] |
//! | read and gather rows without a loader | [`rows`] |
//! | bind another language | [`bindings`] |
//! | fail | [`Error`], [`ErrorKind`], [`Place`], [`Result`] |
//!
//! Types of other crates that appear in signatures are exported too: [`arrow`] has the parts of Arrow that
//! are used, and [`parquet`](https://docs.rs/parquet) and [`object_store`](https://docs.rs/object_store) are
//! re-exported.
//!
//! # What you can rely on
//!
//! * **The order is a function** of the data set, the filter, the seed, the epoch and the number of lanes.
//!   Threads, memory, stores and timing do not change it. Random crops and flips depend on the row, not on
//!   its position in a batch.
//! * **Each row exactly once.** Over all processes, an epoch delivers each selected row once. Rows that
//!   [`drop_last`](LoaderBuilder::drop_last) leaves out, and rows that are repeated to keep processes equal,
//!   are counted.
//! * **Equal steps.** Every process has the same number of batches. [`Loader::len`] is exact.
//! * **Elastic.** A [`Position`] is the same on every process, and resumes on a different number of them as
//!   long as the global batch and the lanes stay the same.
//! * **Resuming is a seek.** The rows before a position are not read again, except those in the shuffle
//!   window at that position.
//! * **Bounded memory.** Everything in flight stays within [`memory`](LoaderBuilder::memory). Options that
//!   cannot fit are refused, with a number that fits.
//! * **Nothing silent.** A row that cannot be delivered is an error with its place, or a counted skip that
//!   you asked for.
//!
//! # Errors
//!
//! Everything that can fail returns an [`Error`]. It has an [`ErrorKind`] to branch on, a [`Place`] (file,
//! row group, row, column), a cause, and often a hint:
//!
//! ```
//! use forebay::{Dataset, ErrorKind};
//!
//! let error = Dataset::open("no/such/folder").unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::NotFound);
//! ```
//!
//! A panic does not end the process. A panic of an image decoder or of a [`column::Decoder`] makes a bad row,
//! a panic of the Parquet decoder is [`ErrorKind::Corrupt`], and any other, such as a panic of a store, is
//! [`ErrorKind::Internal`].
//!
//! # Cargo features
//!
//! Local files and `object_store` clients of your own need no feature.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `aws` | yes | `s3://` |
//! | `gcp` | yes | `gs://` |
//! | `azure` | yes | `az://`, `abfss://` |
//! | `http` | yes | `https://`, `hf://` |
//! | `hdfs` | yes | `hdfs://`, `hopsfs://`, without Java |
//! | `formats` | yes | WebP, GIF, BMP and TIFF beside JPEG and PNG |
//!
//! # What it is not
//!
//! * Not a query engine: a filter is one condition on the stored values of a row, with arithmetic and
//!   comparisons; there are no joins, no groups and no computed columns.
//! * Not a writer: it reads data sets that others wrote, and never changes them. Only
//!   [`write_index`](Dataset::write_index) adds a file, if you call it. The program's `pack` and `unpack`
//!   write copies, elsewhere.
//! * Not a format: there is nothing to convert to. The [row cache](DiskCache) can be deleted at any time.
//! * Not asynchronous at its surface: [`Epoch`] is a blocking iterator, since a training loop is one.
//!
//! [`RecordBatch`]: https://docs.rs/arrow/latest/arrow/array/struct.RecordBatch.html

mod batch;
mod cache;
pub mod column;
mod loader;
mod monitor;
mod operand;
mod reader;
pub mod samples;
mod shard;
mod shuffle;

pub use object_store;
pub use parquet;

pub use cache::{DiskCache, Tier};
pub use forebay_base::{Error, ErrorKind, Place, Result};
pub use forebay_image::Image;
pub use forebay_store::catalog::{RowId, RowPlace};
pub use forebay_store::snapshot::TableVersion;
pub use forebay_store::source::IndexReport;
pub use loader::{
    BadRow, CacheSpec, Dataset, Deny, Epoch, Flatten, Loader, LoaderBuilder, LoaderSpec, Locations, OnBadRow,
    OpenOptions, Receipt, Rewind, Stats, Step, Wait,
};
pub use reader::Filter;
pub use shard::{Position, Shard, Shuffle, Stop};

pub mod arrow {
    //! The parts of [Arrow](https://docs.rs/arrow) that appear in this library's interface: arrays, buffers,
    //! types, and the functions that take and join rows.
    //!
    //! They are the types of the `arrow` crate of the same version, under the same paths. The rest of Arrow,
    //! such as casts, comparisons and regular expressions, is not needed here and would add half a minute to
    //! every build; a program that wants it depends on `arrow` beside this library, and passes its batches on
    //! as they are.

    pub use forebay_arrow::{array, buffer, compute, datatypes, error, ffi, ffi_stream, ipc, record_batch};
}

pub mod bindings {
    //! Items for bindings to other languages: batches in memory that the binding provides, a consumer that
    //! can be interrupted, and rows that the consumer rejects.

    pub use crate::batch::{needs_values, null_field, null_rows};
    pub use crate::loader::{
        Consumer, Pages, Reason, Registration, Rejections, SlotMemory, decoding_threads, ended, forked,
        page_cache,
    };
}

pub mod filter {
    //! The parts of a [`Filter`](crate::Filter): expressions, which begin with [`col`] or [`row_fraction`],
    //! and terms, each a column, an operator and a value.
    //!
    //! ```
    //! use forebay::Filter;
    //! use forebay::filter::{Op, Term, Value, col};
    //!
    //! let square = Filter::all_of([
    //!     Term::new("width", Op::GreaterEq, 224),
    //!     Term::new("split", Op::In, vec!["train", "extra"]),
    //!     Term { column: "grey".into(), op: Op::Eq, value: Value::Bool(false) },
    //! ]);
    //! assert_eq!(square.columns(), ["width", "split", "grey"]);
    //!
    //! let wide = col("width").gt(col("height") * 2) & !col("split").eq("test");
    //! assert_eq!(Filter::from(wide).columns(), ["width", "height", "split"]);
    //! ```

    pub use crate::operand::{Arithmetic, Operand, Value, col};
    pub use crate::reader::filter::{Expr, Op, Term, row_fraction, row_fraction_by};
}

pub mod image {
    //! The parts of an [`Image`](forebay_image::Image): sizes, layouts, types of pixels, filters, padding,
    //! raw pixels, and the key of its random draws. [`decode`] and [`decode_many`] decode images without a
    //! data set.

    pub use forebay_image::{
        AutoAugment, EncodedImage, Interpolation, Layout, MaskType, Padding, PaddingMode, PixelType, Pixels,
        Raw, Resampling, RowKey, Size, View, decode, decode_into, decode_many, decode_many_into,
    };
}

pub mod petastorm {
    //! The schema of a [Petastorm](https://github.com/uber/petastorm) data set, which says which array or
    //! image is in the cells of each column.
    //!
    //! Petastorm keeps the schema pickled in the file `_common_metadata` beside the data. It is read as plain
    //! values: nothing that it names is imported, called or run.

    pub use crate::loader::petastorm_schema as schema;
    pub use forebay_petastorm::{Codec, Dtype, Field, SparkType, Unischema};
}

pub mod plan {
    //! Computes the order of an epoch from row counts: it divides row groups among lanes (the sequences that
    //! are interleaved into the order), and lanes into steps and rows. It also tells which rows a rank would
    //! read, and what a [`Position`](crate::Position) stores of the plan. Nothing in this module reads data.

    pub use crate::loader::{BetterMixing, MixMemory, MixingOption, RankPlan, RankReads, SourcePlan};
    pub use crate::shard::{
        Deals, EpochOrder, LaneSpan, OrderId, OrderSpec, Part, Pick, PlannedStep, SavedFiles, SavedSource,
        SavedSplit, SavedTable, Share, Split, Walk, column_key, column_tag, expected_distinct,
        row_groups_of_a_batch, row_key, view_key,
    };
}

pub mod repack {
    //! Copies a data set and stores its JPEGs as DCT coefficients, which decode in half the time, or copies
    //! such a data set back to JPEGs.

    pub use crate::column::is_packed;
    pub use crate::loader::{Repack, RepackOptions, RepackReport, RepackedColumn};
}

pub mod rows {
    //! Rows without a loader: read a row group, gather rows into a batch, and keep rows on disk.

    pub use crate::batch::{Run, Selection, gather};
    pub use crate::cache::{Entry, Key};
    pub use crate::reader::filter::RowGroupMatch;
    pub use crate::reader::rows::read_part;
}

pub mod stats {
    //! The parts of [`Stats`](crate::Stats). All times are in seconds and all sizes in bytes, unless a
    //! field's name says otherwise.
    //!
    //! ```no_run
    //! use forebay::stats::Stage;
    //!
    //! let loader = forebay::Dataset::open("data/")?.loader().build()?;
    //! let stats = loader.stats();
    //! println!("{:.1} s waited for storage", stats.waits.for_stage(Stage::Fetch));
    //! println!("{} row groups read, {} bytes", stats.stages.fetch.items, stats.stages.fetch.bytes);
    //! println!("{}", stats.verdict());
    //! # Ok::<(), forebay::Error>(())
    //! ```

    pub use crate::cache::{CacheStats, Cleared, DeclinedStats, Off, PastStats, Report};
    pub use crate::loader::{
        Bucket, MemoryStats, NextBin, NextStats, PoolStats, QueueStats, SourceStats, Stage, StageStats,
        Stages, Timeline, Verdict, Waits,
    };
    pub use forebay_store::source::TrafficStats;
}
