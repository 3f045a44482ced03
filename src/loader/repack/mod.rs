//! Copies a data set and converts its images: JPEGs to DCT coefficients, or coefficients back to JPEGs.
//!
//! Only the column chunks of images are decoded and re-encoded. All other column chunks are copied byte for
//! byte, with their statistics, page indexes and Bloom filters. The copy has the same row groups in the same
//! order, and the same metadata of files.
//!
//! ```text
//! footer ─ columns ─► which leaf columns hold images, and the schema with their extension type
//! file ───► for each row group: chunk ─► images in their other form ┐
//!           bytes of all other chunks ──────────────────────────────┴─► a file, put in its place when it is whole
//! ```

mod chunk;
mod columns;
mod file;
mod form;
mod options;
mod orders;
mod report;
mod stored;

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::File;
use forebay_store::source::{Destination, is_inside};
use rayon::ThreadPool;

pub use form::Repack;
pub use options::RepackOptions;
pub use report::{RepackReport, RepackedColumn};

use super::dataset::Dataset;
use super::machine;
use super::threads;
use columns::Images;
use file::Converter;
use stored::StoredFile;

impl Dataset {
    /// Writes a copy of the data set, with its images converted, below `location`: an empty folder, or a
    /// prefix of a store under which nothing exists. `done` is called after each row group, with its number
    /// of rows. The data set itself is not changed.
    ///
    /// # Errors
    /// Fails with `Invalid` if no column holds images that can be converted, if a named column cannot hold
    /// images, or if `location` is not empty. Fails with `BadRow` if a cell that is to be unpacked is
    /// damaged. Errors of the store are passed on.
    pub fn repack(
        &self,
        location: &str,
        options: &RepackOptions,
        mut done: impl FnMut(u64),
    ) -> Result<RepackReport> {
        let destination = Destination::parse(location, &options.storage)?;
        if is_inside(location, &options.from)? {
            let error = Error::invalid("the folder is inside the data set, which would then hold both");
            return Err(error.at(destination.place("")).hint("name a folder beside it"));
        }
        let (io, _) = self.here()?;
        let empty = destination.clone();
        io.wait_for(async move { empty.check_empty().await })??;
        self.check_repacked()?;
        let pool = threads::pool(options.threads.unwrap_or_else(machine::processors))?;
        let mut job =
            RepackJob { dataset: self, options, destination: destination.clone(), pool: &pool, images: None };
        let written = job.write_all(&mut done).and_then(|report| destination.finish().map(|()| report));
        if written.is_err() {
            destination.abandon();
        }
        written
    }

    /// Fails for files of a table, such as Delta or Iceberg. A copy of these files would lack the table's
    /// list, which says which of their rows are valid.
    fn check_repacked(&self) -> Result<()> {
        let of_table = |file: &&File| file.deleted.is_some() || file.declared.is_some();
        let Some(file) = self.catalog.files.iter().find(of_table) else { return Ok(()) };
        let cause = "files of a table are not written again: its list says which of their rows are valid";
        Err(Error::new(ErrorKind::Unsupported, cause).at(Place::file(file.location.clone())))
    }
}

/// The state of copying one data set.
struct RepackJob<'a> {
    dataset: &'a Dataset,
    options: &'a RepackOptions,
    destination: Destination,
    pool: &'a ThreadPool,
    /// The columns of images; `None` until a file with rows was opened.
    images: Option<Images>,
}

impl RepackJob<'_> {
    fn write_all(&mut self, done: &mut dyn FnMut(u64)) -> Result<RepackReport> {
        let mut report = RepackReport::default();
        for file in 0..self.dataset.catalog.files.len() {
            self.write(file, &mut report, done)?;
        }
        match self.images {
            Some(_) => Ok(report),
            None => Err(Error::invalid("the data set has no rows").hint("there is nothing to write")),
        }
    }

    fn write(&mut self, file: usize, report: &mut RepackReport, done: &mut dyn FnMut(u64)) -> Result<()> {
        let about = &self.dataset.catalog.files[file];
        let place = || Place::file(about.location.clone());
        let stored = StoredFile::new(self.dataset, file)?;
        let metadata = stored.metadata().map_err(|error| error.at(place()))?;
        if self.images.is_none() && metadata.file_metadata().num_rows() > 0 {
            let images = Images::find(self.options, &stored, &metadata);
            let images = images.map_err(|error| error.at(place()))?;
            report.columns = images.reports(self.options.form);
            self.images = Some(images);
        }
        let images = self.images.clone().unwrap_or_default();
        let unfinished = self.destination.unfinished(&about.relative)?;
        let converter = Converter { form: self.options.form, pool: self.pool };
        let written = file::write(converter, &images, &stored, &metadata, &unfinished, report, done);
        let placed = |error: Error| match error.kind() == ErrorKind::Io && error.place().file.is_none() {
            // Errors of reading name their file already, so this is an error of writing the local copy.
            true => error
                .at(Place::file(unfinished.display().to_string()))
                .hint("name a folder on a disk that has room"),
            false => error.at(place()),
        };
        let put = written.map_err(placed).and_then(|()| {
            report.bytes_after += std::fs::metadata(&unfinished).map_or(0, |written| written.len());
            let (destination, relative) = (self.destination.clone(), about.relative.clone());
            let whole = unfinished.clone();
            self.dataset.here()?.0.wait_for(async move { destination.put(&whole, &relative).await })?
        });
        if put.is_err() {
            // The file may be incomplete, so it is removed.
            let _ = std::fs::remove_file(&unfinished);
        }
        put?;
        report.files += 1;
        report.rows += metadata.file_metadata().num_rows().max(0).cast_unsigned();
        report.bytes_before += about.size;
        Ok(())
    }
}
