//! Columns: which are read, and what is done with each.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};

use super::LoaderBuilder;
use crate::batch::{Fill, is_variable};
use crate::cache::DiskCache;
use crate::catalog::{Catalog, Projection, check_plain};
use crate::decode::Image;
use crate::error::{Error, Place, Result};
use crate::loader::collate::Treatment;
use crate::loader::images::{can_be_kept, holds_images};

impl LoaderBuilder {
    pub(super) fn projection(&self) -> Result<Projection> {
        let catalog = &self.dataset.catalog;
        match &self.spec.columns {
            Some(names) if names.is_empty() => {
                Err(Error::invalid("an empty list of columns").hint("leave out `columns` to read all"))
            }
            Some(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                if let Some((at, name)) =
                    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
                {
                    return Err(Error::invalid(format!(
                        "column {name:?} is listed twice, again at place {}",
                        at + 1
                    )));
                }
                catalog.project(&names)
            }
            None => {
                let names: Vec<&str> =
                    catalog.schema.fields().iter().map(|field| field.name().as_str()).collect();
                catalog.project(&names)
            }
        }
    }

    /// Pairs columns with what was said about them, and refuses what cannot be.
    pub(super) fn treatments(&self, projection: &Projection) -> Result<Vec<Treatment>> {
        let mut images: HashMap<&str, &Image> = HashMap::new();
        for (name, image) in &self.spec.decode {
            let field = self.read_column(projection, name, "decode")?;
            image.validate().map_err(|error| error.at(Place::default().column(name.as_str())))?;
            if !holds_images(field.data_type()) {
                return Err(Error::invalid(format!("holds {}, not encoded images", field.data_type()))
                    .at(Place::default().column(name.as_str()))
                    .hint("images are binary values, or struct<bytes, path>"));
            }
            images.insert(name, image);
        }
        let mut fills: HashMap<&str, &Fill> = HashMap::new();
        for (name, value) in &self.spec.fill_null {
            let field = self.read_column(projection, name, "fill_null")?;
            let place = || Place::default().column(name.as_str());
            if images.contains_key(name.as_str()) {
                return Err(Error::invalid("fill_null gives a value for images, which have none")
                    .at(place())
                    .hint("rows without an image are left out with `on_bad_row`"));
            }
            value.check(field.data_type()).map_err(|error| error.at(place()))?;
            fills.insert(name, value);
        }
        let fields = projection.schema().fields();
        check_plain(
            fields.iter().map(AsRef::as_ref).filter(|field| !images.contains_key(field.name().as_str())),
        )?;
        let treatment = |field: &FieldRef| match images.get(field.name().as_str()) {
            Some(image) => Treatment::Image((*image).clone()),
            None => Treatment::Plain { fill: fills.get(field.name().as_str()).copied().cloned() },
        };
        Ok(fields.iter().map(treatment).collect())
    }

    /// The columns whose images the cache can keep in another form than as files.
    pub(super) fn images(
        &self,
        treatments: &[Treatment],
        schema: &Schema,
        cache: &DiskCache,
    ) -> Arc<[(usize, Image)]> {
        let columns = treatments.iter().zip(schema.fields()).enumerate();
        let images = columns.filter_map(|(column, (treatment, field))| match treatment {
            Treatment::Image(image) if can_be_kept(field.data_type()) => Some((column, image.clone())),
            _ => None,
        });
        match cache.is_mapped() {
            true => images.collect(),
            // Where entries are read into memory, it is planned for files.
            false => Arc::new([]),
        }
    }

    /// Bytes of a row in a batch: its pixels, and about what its other columns take.
    pub(super) fn batch_row_bytes(&self, treatments: &[Treatment], projection: &Projection) -> Result<u64> {
        let lengths = self.lengths(treatments, projection)?;
        Ok(lengths.others + lengths.of_values)
    }

    /// What the footers tell of the bytes of a row in a batch.
    pub(super) fn lengths(&self, treatments: &[Treatment], projection: &Projection) -> Result<Told> {
        let catalog = &self.dataset.catalog;
        let mut told = Told { are_known: true, ..Told::default() };
        let (mut alike, mut variable) = (Vec::new(), Vec::new());
        for (column, (field, treatment)) in projection.schema().fields().iter().zip(treatments).enumerate() {
            match treatment {
                Treatment::Image(image) => told.others += image.bytes_per_image() as u64,
                Treatment::Plain { .. } if is_variable(field.data_type()) => {
                    told.columns.push(column);
                    variable.push(field.name().as_str());
                }
                Treatment::Plain { .. } => alike.push(field.name().as_str()),
            }
        }
        if !alike.is_empty() {
            told.others += row_bytes(catalog, &catalog.project(&alike)?);
        }
        if !variable.is_empty() {
            let projection = catalog.project(&variable)?;
            let lengths = catalog.groups.iter().map(|group| catalog.values_bytes(group, &projection));
            let (bytes, are_known) = lengths
                .fold((0u64, true), |sum, (bytes, known)| (sum.0.saturating_add(bytes), sum.1 && known));
            told.of_values = (bytes / catalog.rows().max(1)).max(1);
            told.are_known = are_known;
        }
        Ok(told)
    }

    /// The field of a column that is both in the data set and read.
    fn read_column<'a>(&self, projection: &'a Projection, name: &str, argument: &str) -> Result<&'a Field> {
        self.dataset.catalog.column(name)?;
        projection.schema().field_with_name(name).map_err(|_| {
            Error::invalid(format!(
                "{argument} names column {name:?}, which is not among the columns to read"
            ))
            .hint("add it to `columns`")
        })
    }
}

/// What the footers tell of the bytes of a row in a batch.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Columns whose values differ in length.
    pub(super) columns: Vec<usize>,
    /// Bytes of all others.
    pub(super) others: u64,
    /// Bytes of those, on average, as far as it is known.
    of_values: u64,
    /// Whether it is: not where values repeat each other, and footers do not count them.
    pub(super) are_known: bool,
}

/// Bytes that a row takes in memory, on average.
fn row_bytes(catalog: &Catalog, projection: &Projection) -> u64 {
    let held: u64 = catalog.groups.iter().map(|group| catalog.held_bytes(group, projection)).sum();
    (held / catalog.rows().max(1)).max(1)
}

/// Bytes that a row of the default window counts for.
pub(super) fn window_row_bytes(catalog: &Catalog, projection: &Projection) -> u64 {
    let bytes: u64 = catalog.groups.iter().map(|group| catalog.window_bytes(group, projection)).sum();
    (bytes / catalog.rows().max(1)).max(1)
}

/// Whether any column is decoded to pixels.
pub(super) fn has_images(treatments: &[Treatment]) -> bool {
    treatments.iter().any(|treatment| matches!(treatment, Treatment::Image(_)))
}

/// Whether a slice of a column is as good as a column: its values lie at multiples of a width.
pub(super) fn is_flat(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, _) => is_flat(item.data_type()),
        other => {
            other.primitive_width().is_some()
                || matches!(other, DataType::Boolean | DataType::FixedSizeBinary(_))
        }
    }
}
