//! The loader: makes an iterator of batches from a data set.
//!
//! * [`dataset`](Dataset) opens a data set; [`build`](LoaderBuilder) checks the options of a loader and fills
//!   in those that the user left open,
//! * [`spec`](LoaderSpec) has the options, as Rust, Python and the command line fill them; [`deny`](Deny) is
//!   a list of rows that are not delivered,
//! * `plan` sums up what a rank reads, `sizing` divides the memory budget,
//! * `threads` starts the threads, and `pipe` runs epochs on them as `lifecycle` decides,
//! * `prefetch` fetches the row groups of an epoch, at first only a few at a time (`slow_start`), and
//!   `row_groups` decodes them,
//! * `assembly` lists the rows of each batch in the order of the plan, as far ahead as `admission` allows. It
//!   waits for row groups in `arrivals`; `staying` replaces the fetching if all rows stay in memory,
//! * `batch_group` lets small batches be made together, and `collate` makes them with the codecs of their
//!   columns; `buffer_pool` keeps their buffers, each a `slot` that can be registered with a device,
//! * `hand_over` sends the batches to the consumer through a `queue`, as the `semaphore` permits,
//! * a `source` is a data set with a pipe of its own, and gives a `pass` over its rows; `sources` are those
//!   of a loader, either a single one or several, from which a `mix` takes rows by weight,
//! * `withheld` lists the rows that are denied only from a certain step of the run on,
//! * `rewind` says which rows a step has, past or to come,
//! * `petastorm` reads the schema that Petastorm keeps beside the files of a data set,
//! * `repack` writes a data set again with its JPEGs in another form,
//! * `warm` fills the cache, `keeping` decides whether it keeps anything, `tiers` chooses the form in which
//!   it keeps cells,
//! * [`epoch`](Epoch) takes the batches of passes and hands them over, to a [`consumer`](Consumer) if there
//!   is a layer in between; `progress` counts the batches that were handed over, and [`stats`](Stats) reports
//!   which stages worked and which were waited for.

mod admission;
mod advice;
mod arrivals;
mod assembly;
mod bad_rows;
mod batch_group;
mod buffer_pool;
mod build;
mod collate;
mod consumer;
mod dataset;
mod deny;
mod deny_lists;
mod epoch;
mod hand_over;
mod handle;
mod joint;
mod keeping;
mod lengths;
mod lifecycle;
mod machine;
mod mix;
mod pass;
mod petastorm;
mod pipe;
mod plan;
mod prefetch;
mod progress;
mod queue;
mod refill;
mod rejections;
mod repack;
mod rewind;
mod row_groups;
mod semaphore;
mod sizing;
mod slot;
mod slow_start;
mod source;
mod sources;
mod spec;
mod stats;
mod staying;
mod threads;
mod tiers;
mod warm;
mod withheld;

pub use crate::monitor::Stage;
pub use advice::{BetterMixing, MixingOption};
pub use bad_rows::{BadRow, OnBadRow};
pub use build::LoaderBuilder;
pub use consumer::Consumer;
pub use dataset::{Dataset, Locations, OpenOptions};
pub use deny::Deny;
pub use epoch::{Epoch, Wait};
pub use handle::Loader;
pub use lifecycle::Reason;
pub use machine::page_cache;
pub use pass::{Step, ended};
pub use petastorm::petastorm_schema;
pub use plan::{MixMemory, RankPlan, RankReads, SourcePlan};
pub use progress::Receipt;
pub use rejections::Rejections;
pub use repack::{Repack, RepackOptions, RepackReport, RepackedColumn};
pub use rewind::Rewind;
pub use slot::{Pages, Registration, SlotMemory};
pub use spec::{CacheSpec, Flatten, LoaderSpec};
pub use stats::{
    Bucket, MemoryStats, NextBin, NextStats, PoolStats, QueueStats, SourceStats, StageStats, Stages, Stats,
    Timeline, Verdict, Waits,
};
pub use threads::{decoding_threads, forked};
