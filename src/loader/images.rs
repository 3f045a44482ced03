//! Image columns at both ends: encoded as row groups hold them, decoded as batches deliver them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, FixedSizeBinaryArray,
    FixedSizeListArray, RecordBatch, StructArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field};

use super::buffer_pool::PooledBuffer;
use crate::batch::view_bytes;
use crate::decode::{Form, Image, PixelType, Workspace};
use crate::error::{Error, ErrorKind, OrFail, Result};

/// Encoded images of one source: raw bytes, or the Hugging Face `struct<bytes, path>`.
pub(super) enum Encoded<'a> {
    View(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    Struct { nulls: Option<&'a NullBuffer>, bytes: &'a BinaryViewArray },
}

impl<'a> Encoded<'a> {
    /// How `array` holds them.
    pub(super) fn of(array: &'a dyn Array) -> Result<Self> {
        let unfit =
            || Error::new(ErrorKind::Internal, format!("{} holds no encoded images", array.data_type()));
        match array.data_type() {
            DataType::BinaryView => Ok(Encoded::View(array.as_binary_view())),
            DataType::FixedSizeBinary(_) => Ok(Encoded::Fixed(array.as_fixed_size_binary())),
            DataType::Struct(_) => {
                let fields = array.as_struct();
                let bytes = fields.column_by_name("bytes").ok_or_else(unfit)?;
                Ok(Encoded::Struct {
                    nulls: fields.nulls(),
                    bytes: bytes.as_binary_view_opt().ok_or_else(unfit)?,
                })
            }
            _ => Err(unfit()),
        }
    }

    /// The bytes of one row; `None` for a null.
    pub(super) fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Encoded::View(array) => array.is_valid(row).then(|| view_bytes(array, row)),
            Encoded::Fixed(array) => array.is_valid(row).then(|| array.value(row)),
            Encoded::Struct { nulls, bytes } => (nulls.is_none_or(|nulls| nulls.is_valid(row))
                && bytes.is_valid(row))
            .then(|| view_bytes(bytes, row)),
        }
    }
}

/// Rows with the images of some columns in the form in which a cache keeps them. What is no whole image stays as it is, so
/// that it is refused where it is used.
///
/// `None` where the images would take more than `most` bytes: judged by the first one, and counted as they are made.
pub(super) fn kept(
    rows: &RecordBatch,
    images: &[(usize, Image)],
    form: Form,
    (most, workspace): (u64, &Workspace),
) -> Result<Option<RecordBatch>> {
    let mut made = 0;
    let mut columns = rows.columns().to_vec();
    for (column, image) in images {
        let encoded = Encoded::of(rows.column(*column).as_ref())?;
        let each = || (0..rows.num_rows()).map(|row| encoded.get(row));
        let bytes = each().flatten().find_map(|file| image.kept_bytes(form, file).ok()).unwrap_or(0);
        if bytes.saturating_mul(rows.num_rows() as u64) > most {
            return Ok(None);
        }
        let mut kept = BinaryViewBuilder::with_capacity(rows.num_rows());
        for file in each() {
            match file.map(|file| (image.keep_within(workspace, form, file), file)) {
                Some((Ok(pixels), _)) => {
                    made += pixels.len() as u64;
                    if made > most {
                        return Ok(None);
                    }
                    kept.append_value(pixels);
                }
                Some((Err(_), file)) => kept.append_value(file),
                None => kept.append_null(),
            }
        }
        let kept: ArrayRef = Arc::new(kept.finish());
        columns[*column] = match rows.column(*column).as_struct_opt() {
            Some(fields) => {
                let (types, mut children, nulls) = fields.clone().into_parts();
                for (field, child) in
                    types.iter().zip(&mut children).filter(|(field, _)| field.name() == "bytes")
                {
                    debug_assert_eq!(field.data_type(), kept.data_type());
                    *child = kept.clone();
                }
                Arc::new(StructArray::try_new(types, children, nulls).or_fail()?)
            }
            None => kept,
        };
    }
    Ok(Some(RecordBatch::try_new(rows.schema(), columns).or_fail()?))
}

/// Whether the images of a column can be replaced by kept ones: they may have any length.
pub(super) fn can_be_kept(data_type: &DataType) -> bool {
    holds_images(data_type) && !matches!(data_type, DataType::FixedSizeBinary(_))
}

/// Whether encoded images are read from a column of this type.
pub(super) fn holds_images(data_type: &DataType) -> bool {
    match data_type {
        DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => {
            fields.find("bytes").is_some_and(|(_, f)| f.data_type() == &DataType::BinaryView)
        }
        _ => false,
    }
}

/// The field of a decoded image column: a fixed-size list with the `arrow.fixed_shape_tensor` extension type.
pub(super) fn tensor_field(name: &str, image: &Image) -> Field {
    let shape = image.shape();
    let values: usize = shape.iter().product();
    let (item, bfloat16) = match image.pixel_type() {
        PixelType::U8 => (DataType::UInt8, false),
        PixelType::F16 => (DataType::Float16, false),
        PixelType::F32 => (DataType::Float32, false),
        // Arrow has no bfloat16: its bits travel as 16-bit words under a name of our own.
        PixelType::BF16 => (DataType::UInt16, true),
    };
    let list = DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), values as i32);
    let mut metadata = HashMap::from([
        ("ARROW:extension:name".to_string(), "arrow.fixed_shape_tensor".to_string()),
        (
            "ARROW:extension:metadata".to_string(),
            format!(r#"{{"shape":[{},{},{}]}}"#, shape[0], shape[1], shape[2]),
        ),
    ]);
    if bfloat16 {
        metadata.insert("forebay:dtype".into(), "bfloat16".into());
    }
    Field::new(name, list, false).with_metadata(metadata)
}

/// The column of such a field, over the pixels of `rows` images.
pub(super) fn tensor(field: &Field, image: &Image, buffer: PooledBuffer, rows: usize) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, length) = field.data_type() else {
        return Err(Error::new(ErrorKind::Internal, "an image column that is no tensor"));
    };
    let values: usize = image.shape().iter().product();
    let data = ArrayData::builder(item.data_type().clone())
        .len(values * rows)
        .add_buffer(buffer.into_buffer())
        // Allocators align large buffers for every pixel type, but do not promise it for bytes.
        .align_buffers(true)
        .build()
        .or_fail()?;
    Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, make_array(data), None).or_fail()?))
}
