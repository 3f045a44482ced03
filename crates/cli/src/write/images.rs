//! Reads images that are sorted into folders, one for each class.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use rayon::prelude::*;

use super::features::{self, Feature};
use super::folder::DiskFile;
use super::read::read_found;
use super::source::RowSource;
use crate::units::counted;

/// The images of a folder. The first folder of an image's path is its class; without such folders there are
/// no classes.
pub(super) struct ClassFolders {
    images: Vec<DiskFile>,
    /// The class of each image.
    labels: Vec<i64>,
    classes: Vec<String>,
    schema: SchemaRef,
}

impl ClassFolders {
    pub(super) fn open(images: Vec<DiskFile>) -> Result<Self> {
        let folder = |image: &DiskFile| image.relative.split_once('/').map(|(folder, _)| folder.to_owned());
        let names: BTreeSet<String> = images.iter().filter_map(folder).collect();
        let has_classes = images.iter().all(|image| folder(image).is_some());
        let classes: Vec<String> = if has_classes { names.into_iter().collect() } else { Vec::new() };
        let label = |image: &DiskFile| {
            let place = classes.binary_search(&folder(image).unwrap_or_default());
            place.map_or(-1, |place| place as i64)
        };
        let labels = if has_classes { images.iter().map(label).collect() } else { Vec::new() };
        let mut fields = vec![Field::new("image", DataType::Binary, false)];
        let mut features = vec![("image", Feature::Image)];
        if has_classes {
            fields.push(Field::new("label", DataType::Int64, false));
            features.push(("label", Feature::Class(&classes)));
        }
        fields.push(Field::new("path", DataType::Utf8, false));
        features.push(("path", Feature::Value("string")));
        let metadata = features::notes(&features);
        let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
        Ok(ClassFolders { images, labels, classes, schema })
    }
}

impl RowSource for ClassFolders {
    fn kind(&self) -> &'static str {
        "images"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn len(&self) -> usize {
        self.images.len()
    }

    fn row_bytes(&self, row: usize) -> u64 {
        self.images[row].bytes
    }

    fn identity(&self, row: usize) -> String {
        format!("{} {}", self.images[row].relative, self.images[row].bytes)
    }

    fn read(&self, rows: &[usize]) -> Result<RecordBatch> {
        let images: Result<Vec<Vec<u8>>> =
            rows.par_iter().map(|row| read_found(&self.images[*row].path, self.images[*row].bytes)).collect();
        let paths = rows.iter().map(|row| self.images[*row].relative.as_str());
        let mut columns: Vec<ArrayRef> = vec![Arc::new(BinaryArray::from_iter_values(images?))];
        if !self.classes.is_empty() {
            columns.push(Arc::new(rows.iter().map(|row| self.labels[*row]).collect::<Int64Array>()));
        }
        columns.push(Arc::new(StringArray::from_iter_values(paths)));
        RecordBatch::try_new(self.schema.clone(), columns).or_fail()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let empty = self.images.iter().filter(|image| image.bytes == 0).count() as u64;
        if empty > 0 {
            remarks.push(format!("written although they hold nothing: {}", counted(empty, "image")));
        }
        if self.classes.is_empty() && self.images.iter().any(|image| image.relative.contains('/')) {
            remarks.push("no classes: some images are in no folder of their own".to_owned());
        }
        remarks
    }
}
