//! The plan: the order of an epoch, and the share of each rank. Arithmetic only.
//!
//! Order and shares are planned here, before anything is read, as a pure function of a few integers: the
//! selected rows of each row group, a seed, an epoch, the number of lanes and the size of a lane's pool (its
//! shuffle buffer, in row groups). There is no I/O, no clock and no thread, so tests can check laws
//! that hold for every plan, and a plan can be printed, simulated and resumed without touching data.
//!
//! ```text
//! row groups ─ permute ─► one long row sequence ─ cut by rows ─► L lanes ─ shuffle buffer ─► L row orders
//!                                                                                │
//!            global order: row i comes from lane i mod L ◄───────────────────────┘
//!            step k      : rows [k·B, (k+1)·B) of it, shared among the ranks lane by lane
//! ```
//!
//! * [`draw`] makes the random numbers and [`lane`] the order of one lane; [`slots`] goes through a lane with
//!   a [`calendar`], and a [`cursor`] takes its rows, from a [`packed`] list of [`blocks`] where they are
//!   mixed,
//! * [`order`] permutes the row groups of an epoch, [`lanes`] makes its lanes when they are asked for,
//!   [`deal`] has the order in which each part gives its rows,
//! * [`row_costs`] sorts rows by cost, [`even_lanes`] deals row groups to lanes so that these cost about the
//!   same, [`balance`] spreads rows evenly over a lane, and [`exchange`] makes batches more alike in cost,
//! * [`mesh`] finds the share of a process in a grid of processes, [`split`] gives each rank its share of
//!   each step, [`skips`] skips steps, and [`walk`] joins them into the steps of one rank,
//! * [`apportion`] turns weights into whole rows, [`random_shares`] does so at random, [`course`] has the
//!   steps of an epoch over several sources, and [`mix`] their shares,
//! * [`position`] says how far an epoch got, with long texts [shortened](kept_text) and the [files](files)
//!   with which it was saved, and [`mixing`] says how well an order mixes,
//! * [`part_map`] looks up parts.

mod apportion;
mod balance;
mod blocks;
mod calendar;
mod course;
mod cursor;
mod deal;
mod draw;
mod even_lanes;
mod exact;
mod exchange;
mod files;
mod kept_text;
mod lane;
mod lanes;
mod mesh;
mod mix;
mod mixing;
mod order;
mod order_spec;
mod packed;
mod part_map;
mod position;
mod random_shares;
mod row_costs;
mod skips;
mod slots;
mod spec;
mod split;
mod walk;

pub(crate) use apportion::Weights;
pub use course::Stop;
pub(crate) use course::{CourseRule, Steps};
pub use deal::Deals;
pub(crate) use draw::{Draws, Purpose, batch_key, repeat_key};
pub use draw::{column_key, column_tag, row_key, view_key};
pub(crate) use files::CountedFile;
pub use files::SavedFiles;
pub(crate) use kept_text::{kept_text, whole_text};
pub use lane::{Part, Pick};
pub(crate) use mix::{MixSplit, MixedEpoch, Origin, Portion, Run, StepOfMix};
pub use mixing::{expected_distinct, row_groups_of_a_batch};
pub(crate) use mixing::{parts_of_a_batch, row_groups_of_step};
pub use order::EpochOrder;
pub use order_spec::OrderSpec;
pub(crate) use part_map::{PartMap, PartSet};
pub(crate) use position::{LAST_EPOCH, SavedMix, damaged};
pub use position::{OrderId, Position, SavedSource, SavedSplit, SavedTable};
pub(crate) use random_shares::BLOCK as SHARES_BLOCK;
pub(crate) use row_costs::RowCosts;
pub(crate) use skips::{SkippedRows, SkippedSteps};
pub(crate) use spec::Mixing;
pub use spec::{Shard, Shuffle};
pub use split::{LaneSpan, Share, Split};
pub use walk::{PlannedStep, Walk};
