//! The arguments of `decode_image` that say which views are made from each image, and with which random
//! draws.

use forebay::Image as Spec;
use forebay::column::Views;
use forebay::image::RowKey;
use forebay::plan::{column_key, column_tag, row_key, view_key};
use pyo3::prelude::*;

use crate::arguments::{int, refused};
use crate::errors::IntoPython;
use crate::image::Image;

/// A view: one of the forms in which each image is delivered. A plain `forebay.Image` is a view without a
/// name.
pub(super) struct WantedView {
    pub(super) name: Option<String>,
    pub(super) image: Spec,
    /// The number of images that the view makes from each encoded image, as a further dimension of the array;
    /// `None` for one image without this dimension.
    pub(super) count: Option<u32>,
    tag: u64,
}

impl WantedView {
    pub(super) fn one(image: Spec) -> Self {
        WantedView { name: None, image, count: None, tag: 0 }
    }

    /// Reads the views from the argument `image`; there are none if it is not given.
    pub(super) fn read(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<WantedView>> {
        let Some(given) = given else { return Ok(Vec::new()) };
        let py = given.py();
        if let Ok(image) = given.extract::<Image>() {
            let image = image.spec();
            image.validate().and_then(|()| image.check_alone()).or_raise(py)?;
            return Ok(vec![WantedView::one(image)]);
        }
        let not_one = || refused(given, "image", "a forebay.Image or forebay.Views");
        let views =
            given.getattr("views").map_err(|_| not_one())?.call_method0("items").map_err(|_| not_one())?;
        let mut wanted = Vec::new();
        let mut checked = Views::new();
        for view in views.try_iter()? {
            let (name, (image, count)): (String, (Image, Option<u32>)) =
                view?.extract().map_err(|_| not_one())?;
            let image = image.spec();
            image.check_alone().or_raise(py)?;
            checked = match count {
                Some(count) => checked.several(&name, count, image.clone()),
                None => checked.one(&name, image.clone()),
            };
            wanted.push(WantedView { tag: column_tag(&name), name: Some(name), image, count });
        }
        checked.validate().or_raise(py)?;
        Ok(wanted)
    }

    /// The bytes that this view takes for one encoded image.
    pub(super) fn bytes(&self) -> usize {
        self.image.bytes_per_image() * self.count.unwrap_or(1) as usize
    }

    /// The shape of this view's array for `rows` encoded images, or for a single one without a row dimension.
    pub(super) fn shape(&self, rows: Option<usize>) -> Vec<usize> {
        let count = self.count.map(|count| count as usize);
        rows.into_iter().chain(count).chain(self.image.shape()).collect()
    }

    /// The key for the random draws of image `number` of the view, made from the key of the encoded image.
    pub(super) fn key(&self, RowKey(key): RowKey, number: u32) -> RowKey {
        RowKey(if self.name.is_some() { view_key(key, self.tag, number) } else { key })
    }
}

/// The keys from which the random draws for the images are made. A loader that reads the images as rows of a
/// column uses the same keys.
pub(super) struct ImageKeys {
    seed: u64,
    epoch: u64,
    tag: u64,
    rows: Numbers,
}

enum Numbers {
    From(u64),
    Each(Vec<u64>),
}

impl ImageKeys {
    pub(super) fn new(
        seed: u64,
        epoch: u64,
        column: &str,
        rows: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let rows = match rows {
            None => Numbers::From(0),
            Some(rows) => match int(rows, 0..=i64::MAX as u64) {
                Some(first) => Numbers::From(first),
                None => Numbers::Each(rows.extract().map_err(|_| refused_rows(rows))?),
            },
        };
        Ok(ImageKeys { seed, epoch, tag: column_tag(column), rows })
    }

    /// Whether there is a key for each of `count` images.
    pub(super) fn are_for(&self, count: usize) -> bool {
        !matches!(&self.rows, Numbers::Each(rows) if rows.len() != count)
    }

    /// The key of the image with this number.
    pub(super) fn key(&self, number: usize) -> RowKey {
        let row = match &self.rows {
            Numbers::From(first) => first + number as u64,
            Numbers::Each(rows) => rows[number],
        };
        RowKey(column_key(row_key(self.seed, self.epoch, row), self.tag))
    }
}

/// The error for an invalid argument `rows`.
pub(super) fn refused_rows(rows: &Bound<'_, PyAny>) -> PyErr {
    refused(rows, "rows", "the row number of the first image, or that of each image")
}
