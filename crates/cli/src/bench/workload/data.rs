//! The data of workloads, which is made once, kept in a folder, and reused if it is complete.
//!
//! ```text
//! forebay-workloads/
//!   flux-288-v1/                       a complete data set: it gets this name when it is finished
//!     part-00000-of-00001.parquet
//!     _manifest.json                   the names and sizes of the files
//!   .flux-288-v1.1234/                 a data set that process 1234 is making
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Place, Result};
use serde::{Deserialize, Serialize};

use crate::console::{Console, note};
use crate::synth::{FileLayout, Gallery, Order, RowKind, files};

/// The version of the generated data. It is part of the folder's name, so data of an older version is not
/// reused.
const VERSION: u32 = 1;
/// The manifest's name begins with `_`, like `_SUCCESS`, so that it is not taken for data.
const MANIFEST: &str = "_manifest.json";
const SEED: u64 = 0;
const CLASSES: u32 = 1_000;
/// The JPEG quality of the pictures. At this quality, a picture of the published number of bytes has about
/// the width and height of the pictures that the demands were measured on.
const QUALITY: RangeInclusive<u8> = 97..=98;
/// A file holds at most this many row groups, so that a large data set is split into several files. For
/// embeddings this limit does not apply: each of their files holds one row group.
const ROW_GROUPS_PER_FILE: u64 = 250;

/// A data set that a workload reads.
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) kind: RowKind,
    /// The width and height of pictures.
    pub(super) extent: (u32, u32),
    pub(super) rows: u64,
    pub(super) rows_per_group: u64,
}

/// The files of a complete data set.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    rows: u64,
    /// The names of the files, and their sizes in bytes.
    files: BTreeMap<String, u64>,
}

impl Set {
    /// The path of the data below `folder`. The data is made if it is missing.
    pub(super) fn at(&self, folder: &Path, console: &Console) -> Result<PathBuf> {
        let name = format!("{}-{}-v{VERSION}", self.name, self.rows);
        let place = folder.join(&name);
        if place.exists() {
            return check(&place, self.rows).map(|()| place);
        }
        let making = folder.join(format!(".{name}.{}", std::process::id()));
        note(format_args!("making the data of the workload, once, in {}", place.display()));
        let made = self.make(&making, console).and_then(|()| match fs::rename(&making, &place) {
            // Another process made the data first.
            Err(_) if place.exists() => check(&place, self.rows),
            other => other.map_err(|error| error.into_error().at(shown(&place))),
        });
        // After a rename the temporary folder does not exist, and after a failure its contents are useless.
        let _ = fs::remove_dir_all(&making);
        made.map(|()| place)
    }

    fn make(&self, making: &Path, console: &Console) -> Result<()> {
        fs::create_dir_all(making).map_err(|error| error.into_error().at(shown(making)))?;
        let (width, height) = self.extent;
        let order = Order {
            kind: self.kind,
            width,
            height,
            quality: QUALITY,
            classes: CLASSES,
            gallery: Gallery::default(),
            seed: SEED,
        };
        let layout = FileLayout {
            rows: self.rows,
            rows_per_group: self.rows_per_group,
            rows_per_file: self.rows_per_group * ROW_GROUPS_PER_FILE,
        };
        let layout = match self.kind {
            RowKind::Embeddings => FileLayout { rows_per_file: self.rows_per_group, ..layout },
            _ => layout,
        };
        let mut progress = console.progress("making", "rows", self.rows);
        files(making, &order, &layout, 0, |rows| progress.advance(rows))?;
        let manifest = Manifest { rows: self.rows, files: sizes(making)? };
        let text = serde_json::to_string_pretty(&manifest)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot write JSON: {error}")))?;
        let file = making.join(MANIFEST);
        fs::write(&file, text).map_err(|error| error.into_error().at(shown(&file)))
    }
}

/// Returns an error if the files in the folder are not those that its manifest lists.
fn check(place: &Path, rows: u64) -> Result<()> {
    let unfit = |why: String| {
        Error::new(ErrorKind::Corrupt, why).at(shown(place)).hint("remove the folder, and it is made again")
    };
    let text = fs::read_to_string(place.join(MANIFEST))
        .map_err(|error| unfit(format!("the data has no {MANIFEST}: {error}")))?;
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|error| unfit(format!("{MANIFEST} is damaged: {error}")))?;
    let found = Manifest { rows, files: sizes(place)? };
    if found != manifest {
        return Err(unfit(format!("the files are not those of {MANIFEST}")));
    }
    Ok(())
}

/// The sizes of the files of a folder, without its manifest.
fn sizes(folder: &Path) -> Result<BTreeMap<String, u64>> {
    let read = || -> io::Result<BTreeMap<String, u64>> {
        let mut sizes = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            sizes.insert(entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len());
        }
        sizes.remove(MANIFEST);
        Ok(sizes)
    };
    read().map_err(|error| error.into_error().at(shown(folder)))
}

fn shown(path: &Path) -> Place {
    Place::file(path.display().to_string())
}
