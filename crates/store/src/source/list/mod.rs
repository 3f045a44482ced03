//! Finds the files of a data set, in an order that is the same on every kind of store.

mod below;
mod find;
mod key_types;
mod local;
mod location;
mod names;
mod partition;
mod remote;
mod splits;

pub(super) use below::{beside, file_below, files_in, location, pinned, written};
pub(super) use find::{find, find_in, newest_version};
pub use key_types::KeyTypes;
pub(super) use names::COMMON_METADATA;
pub(super) use partition::settle;
pub use partition::{FileFilter, none_kept};
pub(super) use splits::several as several_splits;
