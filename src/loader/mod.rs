//! The pipe and its handle: from a data set to an iterator of batches.
//!
//! * [`dataset`](Dataset) opens, [`build`](LoaderBuilder) checks what was asked for and settles what was left open,
//! * [`spec`](LoaderSpec) has the options, as every door fills them,
//! * `plan` sums up who reads what, `sizing` shares out the memory budget,
//! * `threads` starts them, `pipe` runs an epoch on them: `prefetch` fetches its
//!   row groups and `row_groups` decodes them, `assembly` follows the plan, `collate`
//!   makes one batch of rows and `images`, `buffer_pool` keeps its buffers,
//! * `warm` fills the cache, `tiers` chooses the form in which it keeps images,
//! * [`epoch`](Epoch) hands over, to a [`consumer`](Consumer) where there is more in between; `progress` remembers what
//!   was, [`stats`](Stats) tells who worked and who waited for whom.

mod assembly;
mod bad_rows;
mod buffer_pool;
mod build;
mod collate;
mod consumer;
mod dataset;
mod epoch;
mod handle;
mod images;
mod machine;
mod pipe;
mod plan;
mod prefetch;
mod progress;
mod queue;
mod row_groups;
mod semaphore;
mod sizing;
mod spec;
mod stats;
mod threads;
mod tiers;
mod warm;

pub use crate::monitor::Stage;
pub use bad_rows::{BadRow, OnBadRow};
pub use build::LoaderBuilder;
pub use consumer::Consumer;
pub use dataset::{Dataset, Locations};
pub use epoch::{Epoch, Step, Wait};
pub use handle::Loader;
pub use machine::page_cache;
pub use plan::RankPlan;
pub use progress::Receipt;
pub use spec::{CacheSpec, LoaderSpec};
pub use stats::{MemoryStats, NextStats, PoolStats, QueueStats, StageStats, Stages, Stats, Verdict, Waits};
