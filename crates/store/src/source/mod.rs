//! Finds and reads files in stores (local disks and object stores): resolves paths and URLs to files, and
//! makes a catalogue from the files' footers. The code is async.
//!
//! Nothing here decodes rows. The caller must run the code on a tokio runtime; none is started here.
//!
//! ```text
//! locations ─ url ─► targets ───────── list, tables ─► Snapshot ─ footer ─► Catalog
//!                                                            File ─ store ─► bytes
//! ```
//!
//! A [`Store`] is one or more volumes: the local disk ([`local`]), or an object store that is read through
//! [`remote`], whose client comes from [`clouds`] and sends its requests over [`wire`].

mod buffers;
mod clouds;
mod common_metadata;
mod destination;
mod footer;
mod glob;
mod handles;
mod hub;
mod index;
mod kept_rows;
mod list;
mod local;
mod metadata_cache;
mod open;
mod other_formats;
mod remote;
#[cfg(all(feature = "iceberg", feature = "network"))]
mod rest;
mod row_ids;
mod shown;
mod store;
mod stored;
mod table_settings;
mod tables;
mod traffic;
mod url;
#[cfg_attr(not(feature = "network"), path = "wire/absent.rs")]
mod wire;

pub use common_metadata::{StoredValue, common_values};
pub use destination::{Destination, Resumed, is_inside};
pub use footer::FOOTERS_AT_ONCE;
pub use footer::Footers;
pub use glob::{is_pattern, matches_name};
pub use handles::check as check_handles;
pub use hub::HubPart;
pub use index::IndexReport;
pub use index::{pack, write_indexes};
pub use kept_rows::KeptRows;
pub use list::{FileFilter, KeyTypes, none_kept};
pub use local::Reading;
pub use open::{Opening, from_store, newest_versions, open, open_with};
pub use shown::shown;
pub use store::Store;
pub use table_settings::store_options;
pub use tables::{FoundFile, Sign, TableFolder, TableFormat, register_table_format};
pub use traffic::TrafficStats;
pub use url::absolute;
