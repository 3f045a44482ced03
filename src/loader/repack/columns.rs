//! Finds the columns that hold images, and makes the schema of the file in which they are stored in another
//! form: as DCT coefficients, or as JPEGs again.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::{ARROW_SCHEMA, arrow_schema, unknown_column};
use parquet::arrow::encode_arrow_schema;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type, TypePtr};

use super::chunk::Chunk;
use super::form::Repack;
use super::options::RepackOptions;
use super::report::RepackedColumn;
use super::stored::StoredFile;
use crate::column::{EXTENSION_METADATA, EXTENSION_NAME, packed_metadata};

/// The number of cells of a column that are examined to find out whether it holds images to convert.
const CELLS_SEEN: usize = 64;

/// In a column of `struct<bytes, path>`, the field that holds the bytes of an image.
const BYTES: &str = "bytes";
/// If images are kept, their coefficients are written to a new column, with this suffix after the name of the
/// column of images.
const BESIDE_SUFFIX: &str = "_coefficients";

/// The names of the columns whose images are converted.
#[derive(Clone, Debug, Default)]
pub(super) struct Images {
    names: Vec<String>,
}

/// A leaf column of a file that holds images.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageLeaf {
    /// The column's index among all leaf columns of the file.
    pub(super) leaf: usize,
    /// The index, among the top-level columns of the file, of the one that contains the leaf.
    root: usize,
    /// The column's index in [`Images`].
    pub(super) image: usize,
}

impl Images {
    /// Returns the columns that the options name. If they name none, returns the columns in which at least
    /// one of the first cells of the first row group with rows is an image that can be converted.
    pub(super) fn find(
        options: &RepackOptions,
        stored: &StoredFile,
        metadata: &ParquetMetaData,
    ) -> Result<Images> {
        let schema = metadata.file_metadata().schema_descr();
        if let Some(names) = &options.columns {
            for (at, name) in names.iter().enumerate() {
                leaf_of(schema, name)?;
                if names[..at].contains(name) {
                    let cause = format!("column {name:?} is listed twice, again at place {}", at + 1);
                    return Err(Error::invalid(cause));
                }
            }
            return Ok(Images { names: names.clone() });
        }
        let (group, about) = metadata
            .row_groups()
            .iter()
            .enumerate()
            .find(|(_, group)| group.num_rows() > 0)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "rows of no row group"))?;
        let mut names = Vec::new();
        for field in schema.root_schema().get_fields() {
            let Ok((leaf, _)) = leaf_of(schema, field.name()) else { continue };
            let place = || Place::default().row_group(group).column(field.name());
            let cells = Chunk::open(stored, about.column(leaf), about.num_rows())
                .and_then(|mut chunk| chunk.next(CELLS_SEEN))
                .map_err(|error| error.at(place()))?;
            if cells.values.iter().any(|cell| options.form.is_for(cell.data())) {
                names.push(field.name().to_owned());
            }
        }
        if names.is_empty() {
            let (cause, hint) = match options.form {
                Repack::Pack { .. } => (
                    "no column holds JPEGs in the first row group",
                    "name one that does with --columns, such as --columns image",
                ),
                Repack::Unpack => (
                    "no column holds the coefficients of JPEGs in the first row group",
                    "`forebay pack` writes them; name a column that has them with --columns",
                ),
            };
            return Err(Error::invalid(cause).hint(hint));
        }
        Ok(Images { names })
    }

    /// Makes an empty report for each column of images.
    pub(super) fn reports(&self, form: Repack) -> Vec<RepackedColumn> {
        let report = |name: &String| RepackedColumn {
            column: name.clone(),
            written_as: if is_beside(form) { beside(name) } else { name.clone() },
            ..RepackedColumn::default()
        };
        self.names.iter().map(report).collect()
    }

    /// Finds, in the schema of a file, the leaf columns that hold the images.
    pub(super) fn leaves(&self, schema: &SchemaDescriptor) -> Result<Vec<ImageLeaf>> {
        let found = self.names.iter().enumerate().map(|(image, name)| {
            let (leaf, root) = leaf_of(schema, name)?;
            Ok(ImageLeaf { leaf, root, image })
        });
        found.collect()
    }
}

/// The schema and the metadata of the file that is written.
pub(super) struct NewSchema {
    pub(super) schema: TypePtr,
    pub(super) key_values: Vec<KeyValue>,
    /// The paths of the columns that are not copied, but written anew with converted images.
    pub(super) paths: Vec<ColumnPath>,
}

/// Makes the schema of the new file from that of the stored file.
pub(super) fn written(form: Repack, file: &FileMetaData, leaves: &[ImageLeaf]) -> Result<NewSchema> {
    let schema = file.schema_descr();
    let root = schema.root_schema();
    let stored = arrow_schema(schema, file.key_value_metadata())?;
    let mut fields: Vec<FieldRef> = stored.fields().iter().cloned().collect();
    let mut types: Vec<TypePtr> = root.get_fields().to_vec();
    let mut paths = Vec::new();
    for image in leaves {
        let name = types[image.root].name().to_owned();
        match form {
            Repack::Pack { beside: true } => {
                let name = beside(&name);
                if types.iter().any(|field| field.name() == name) {
                    let error = Error::invalid("the file has a column of this name already");
                    return Err(error
                        .at(Place::default().column(name))
                        .hint("rename it, or leave out --keep-images"));
                }
                let built = Type::primitive_type_builder(&name, PhysicalType::BYTE_ARRAY)
                    .with_repetition(Repetition::OPTIONAL)
                    .build();
                types.push(Arc::new(built.or_fail()?));
                fields.push(marked(&Field::new(&name, DataType::Binary, true), true));
                paths.push(ColumnPath::from(name));
            }
            _ => {
                let is_packed = form != Repack::Unpack;
                fields[image.root] = marked_bytes(&fields[image.root], is_packed);
                paths.push(schema.column(image.leaf).path().clone());
            }
        }
    }
    let message = Type::group_type_builder(root.name()).with_fields(types).build().or_fail()?;
    let arrow = encode_arrow_schema(&Schema::new_with_metadata(fields, stored.metadata().clone()));
    let others = file.key_value_metadata().into_iter().flatten().filter(|pair| pair.key != ARROW_SCHEMA);
    let mut key_values: Vec<KeyValue> = others.cloned().collect();
    key_values.push(KeyValue { key: ARROW_SCHEMA.to_owned(), value: Some(arrow) });
    Ok(NewSchema { schema: Arc::new(message), key_values, paths })
}

/// Whether coefficients are written to a new column, and the images are kept.
pub(super) fn is_beside(form: Repack) -> bool {
    form == Repack::Pack { beside: true }
}

fn beside(name: &str) -> String {
    format!("{name}{BESIDE_SUFFIX}")
}

/// Returns the indices of the leaf column that holds the images of the column `name`, and of the column
/// itself. Fails if the column cannot hold images: it must be binary, or `struct<bytes, path>`.
fn leaf_of(schema: &SchemaDescriptor, name: &str) -> Result<(usize, usize)> {
    let fields = schema.root_schema().get_fields();
    let Some(root) = fields.iter().position(|field| field.name() == name) else {
        return Err(unknown_column(name, fields.iter().map(|field| field.name())));
    };
    let path: &[&str] = if fields[root].is_group() { &[name, BYTES] } else { &[name] };
    let leaf = schema.columns().iter().position(|leaf| leaf.path().parts() == path);
    leaf.filter(|leaf| {
        let leaf = schema.column(*leaf);
        let is_text = leaf.logical_type_ref().is_some_and(|logical| !matches!(logical, LogicalType::Bson))
            || leaf.converted_type() != parquet::basic::ConvertedType::NONE;
        leaf.physical_type() == PhysicalType::BYTE_ARRAY && leaf.max_rep_level() == 0 && !is_text
    })
    .map(|leaf| (leaf, root))
    .ok_or_else(|| {
        let error = Error::invalid("the column does not hold encoded images");
        error
            .at(Place::default().column(name))
            .hint("images are binary values of any length, or struct<bytes, path>")
    })
}

/// Returns the field of a column of images. The field that holds the bytes gets the extension type of
/// coefficients if `is_packed`, and loses it otherwise.
fn marked_bytes(field: &FieldRef, is_packed: bool) -> FieldRef {
    let DataType::Struct(children) = field.data_type() else { return marked(field, is_packed) };
    let child = |child: &FieldRef| match child.name() == BYTES {
        true => marked(child, is_packed),
        false => child.clone(),
    };
    let children: Fields = children.iter().map(child).collect();
    Arc::new(field.as_ref().clone().with_data_type(DataType::Struct(children)))
}

fn marked(field: &Field, is_packed: bool) -> FieldRef {
    let mut metadata: HashMap<String, String> = field
        .metadata()
        .iter()
        .filter(|(key, _)| is_packed || ![EXTENSION_NAME, EXTENSION_METADATA].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if is_packed {
        metadata.extend(packed_metadata());
    }
    Arc::new(field.clone().with_metadata(metadata))
}
