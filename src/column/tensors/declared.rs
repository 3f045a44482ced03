//! Tensors that files declare themselves, with Arrow's extension type for tensors of one shape or with the
//! array features of Hugging Face.
//!
//! A null is a bad row in tensors that a user asks for. In declared tensors it is delivered as a null, unless
//! `fill_null` gives a value, because the declaration does not say that the user needs every row.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, UInt32Array};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::compute::{concat, take};
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use serde_json::Value;

use super::dtype::{described, name_of};
use super::lists::{Unfit, block, levels, rows_of};
use super::spec::{MAX_SIDES, Tensor};
use crate::batch::{Fill, Selection, gather};
use crate::column::extension::{EXTENSION_METADATA, EXTENSION_NAME};
use crate::column::tensor::{TENSOR, tensor_field};
use crate::column::{Codec, Gather, GatheredRows, NullOptions, PlainCodec};

/// The key in a schema's metadata for the features of a Hugging Face data set.
const HUGGINGFACE: &str = "huggingface";
/// The names of the Hugging Face feature types whose values are tensors.
const ARRAYS: [&str; 4] = ["Array2D", "Array3D", "Array4D", "Array5D"];

/// The most values that a row may have if its axes are reordered. The limit exists because [`FixedCodec`]
/// stores an index for each value of a row.
const MAX_PERMUTED: usize = 1 << 22;

/// The tensor shapes that the metadata of a data set's files declares for columns.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    /// The declared shape of each column, by the column's name.
    features: HashMap<String, Vec<usize>>,
}

impl Declared {
    /// Reads the shapes in the metadata of a schema.
    pub(crate) fn read(schema: &Schema) -> Self {
        let parsed =
            schema.metadata().get(HUGGINGFACE).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(Value::Object(features)) = parsed.as_ref().and_then(|all| all.get("info")?.get("features"))
        else {
            return Declared::default();
        };
        let arrays = features.iter().filter_map(|(column, feature)| {
            let is_array = ARRAYS.contains(&feature.get("_type")?.as_str()?);
            is_array.then(|| Some((column.clone(), sides(feature.get("shape")?)?)))?
        });
        Declared { features: arrays.collect() }
    }

    /// Keeps only the shapes of the columns in `names`, under their new names. Each pair has the new name and
    /// the name in the schema.
    pub(crate) fn delivered_as<'a>(mut self, names: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let features =
            names.filter_map(|(new, stored)| Some((new.to_owned(), self.features.get(stored)?.clone())));
        self.features = features.collect();
        self
    }

    /// The codec of a column that is declared as tensors of one shape; `None` for another column, or if the
    /// declaration does not fit what is stored.
    pub(crate) fn codec(&self, stored: &Field, fill: Option<&Fill>) -> Option<Arc<dyn Gather>> {
        let (levels, values) = levels(stored.data_type());
        name_of(values)?;
        if let (Some(extension), [Some(length)]) = (extension(stored), &levels[..]) {
            return Some(Arc::new(FixedCodec::new(extension?, *length, fill)?));
        }
        let (shape, values) = self.nested(stored)?;
        let (shape, values) = (shape.to_vec(), values.clone());
        Some(Arc::new(NestedCodec { shape, values, fill: fill.cloned() }))
    }

    /// The codec of a column of nested lists that is declared as tensors of one shape and has a mask for its
    /// nulls. The mask is for whole rows: a null inside a row makes it bad, unless `fill` replaces it.
    pub(crate) fn masked_codec(&self, stored: &Field, fill: Option<&Fill>) -> Option<Result<Codec>> {
        if extension(stored).is_some() {
            return None;
        }
        let (shape, values) = self.nested(stored)?;
        Some(Tensor::new(values.clone(), shape).codec(stored, NullOptions { fill, is_masked: true }))
    }

    /// The declared shape of a column of nested lists and the type of its values, if the column fits the
    /// shape.
    fn nested<'a>(&'a self, stored: &'a Field) -> Option<(&'a [usize], &'a DataType)> {
        let (levels, values) = levels(stored.data_type());
        name_of(values)?;
        let shape = self.features.get(stored.name())?;
        let fits = levels.len() == shape.len()
            && levels.iter().zip(shape).all(|(level, side)| level.is_none_or(|length| length == *side))
            && tensor_field("", shape, values.clone()).is_ok();
        fits.then_some((shape, values))
    }
}

/// Parses a shape of one or more sides, each of length 1 or more.
fn sides(value: &Value) -> Option<Vec<usize>> {
    let sides = value.as_array().filter(|sides| sides.len() <= MAX_SIDES)?;
    let sides = sides.iter().map(|side| usize::try_from(side.as_u64()?).ok()).collect::<Option<Vec<_>>>();
    sides.filter(|sides| !sides.is_empty() && !sides.contains(&0))
}

/// The parameters of Arrow's extension type for tensors: the stored shape, and the order in which the axes
/// are delivered if it differs from the stored order.
struct Extension {
    shape: Vec<usize>,
    permutation: Option<Vec<usize>>,
}

/// The shape of a row in a delivered column of Arrow's tensor type; `None` for a column of another type.
pub(crate) fn tensor_shape(field: &Field) -> Option<Vec<usize>> {
    Some(extension(field)??.shape)
}

/// Parses the parameters of a column of Arrow's tensor type. Returns `None` for a column of another type, and
/// `Some(None)` if the parameters are invalid.
fn extension(field: &Field) -> Option<Option<Extension>> {
    let metadata = field.metadata();
    (metadata.get(EXTENSION_NAME)? == TENSOR).then(|| {
        let parameters: Value = serde_json::from_str(metadata.get(EXTENSION_METADATA)?).ok()?;
        let shape = sides(parameters.get("shape")?)?;
        let axes = |value: &Value| {
            let axes = value.as_array()?.iter().map(|axis| usize::try_from(axis.as_u64()?).ok());
            let axes = axes.collect::<Option<Vec<_>>>()?;
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..shape.len()).then_some(axes)
        };
        let permutation = match parameters.get("permutation") {
            None | Some(Value::Null) => None,
            Some(value) => Some(axes(value)?).filter(|axes| !axes.is_sorted()),
        };
        Some(Extension { shape, permutation })
    })
}

/// Delivers Arrow's tensors with their shape, and with their axes in the declared order.
#[derive(Debug)]
struct FixedCodec {
    plain: PlainCodec,
    shape: Vec<usize>,
    /// For each delivered value of a row, its index among the stored values; `None` if both have the same
    /// order.
    order: Option<UInt32Array>,
}

impl FixedCodec {
    /// Returns `None` if lists of this length do not have the shape.
    fn new(extension: Extension, length: usize, fill: Option<&Fill>) -> Option<Self> {
        let Extension { shape, permutation } = extension;
        let values = shape.iter().try_fold(1usize, |values, side| values.checked_mul(*side))?;
        if values != length {
            return None;
        }
        let plain = PlainCodec { fill: fill.cloned() };
        let Some(axes) = permutation else { return Some(FixedCodec { plain, shape, order: None }) };
        if values > MAX_PERMUTED {
            return None;
        }
        let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let strides: Vec<usize> = axes.iter().map(|&axis| stride(axis)).collect();
        let permuted: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
        let order = (0..values).map(|value| {
            let mut rest = value;
            let places = permuted.iter().zip(&strides).rev().map(|(side, stride)| {
                let index = rest % side;
                rest /= side;
                index * stride
            });
            places.sum::<usize>() as u32
        });
        Some(FixedCodec { plain, order: Some(order.collect()), shape: permuted })
    }
}

impl Gather for FixedCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let field = self.plain.delivered(stored)?;
        let (_, values) = levels(field.data_type());
        let shaped = tensor_field(stored.name(), &self.shape, values.clone())?;
        Ok(Arc::new(field.as_ref().clone().with_metadata(shaped.metadata().clone())))
    }

    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        self.plain.prepare(column)
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (gathered, _) = self.plain.gather(sources, selection)?;
        let (Some(order), DataType::FixedSizeList(item, length)) = (&self.order, gathered.data_type()) else {
            return Ok((gathered, Vec::new()));
        };
        let lists = gathered.as_fixed_size_list();
        // Rows are reordered one by one, because the indices of all values would take more memory than the
        // values.
        let rows = (0..lists.len()).map(|row| take(lists.value(row).as_ref(), order, None));
        let rows = rows.collect::<std::result::Result<Vec<_>, _>>().or_fail()?;
        let values = match &rows[..] {
            [] => lists.values().clone(),
            rows => concat(&rows.iter().map(AsRef::as_ref).collect::<Vec<_>>()).or_fail()?,
        };
        let nulls = lists.nulls().cloned();
        Ok((
            Arc::new(FixedSizeListArray::try_new(item.clone(), *length, values, nulls).or_fail()?),
            Vec::new(),
        ))
    }

    fn may_refuse(&self) -> bool {
        false
    }
}

/// Delivers the arrays of Hugging Face, which are stored as nested lists.
#[derive(Debug)]
struct NestedCodec {
    shape: Vec<usize>,
    values: DataType,
    fill: Option<Fill>,
}

impl Gather for NestedCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        if let Some(fill) = &self.fill {
            fill.check(stored.data_type())?;
        }
        let field = tensor_field(stored.name(), &self.shape, self.values.clone())?;
        let DataType::FixedSizeList(item, length) = field.data_type() else { return Ok(Arc::new(field)) };
        // Single numbers may be null. A nested list may be null too, and then its whole row is delivered as
        // null.
        let item = Arc::new(item.as_ref().clone().with_nullable(true));
        let list = DataType::FixedSizeList(item, *length);
        Ok(Arc::new(field.with_data_type(list).with_nullable(self.fill.is_none())))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let gathered = gather(sources, selection, None)?;
        let rows = gathered.len();
        let length: usize = self.shape.iter().product();
        let mut bad = Vec::new();
        let (values, nulls) = match block(gathered.as_ref(), 0..rows, &self.shape) {
            Ok((values, range)) => (values.slice(range.start, range.len()), None),
            Err(_) => {
                let mut nulls = vec![true; rows];
                let found = (0..rows).map(|row| match block(gathered.as_ref(), row..row + 1, &self.shape) {
                    Ok(found) => Some(found),
                    Err(unfit) => {
                        nulls[row] = false;
                        if let Unfit::Length { held, wanted } = unfit {
                            let cause = format!(
                                "a list of {held} values where {} is declared, which takes {wanted}",
                                described(&self.values, &self.shape)
                            );
                            bad.push((row, Error::new(ErrorKind::BadRow, cause)));
                        }
                        None
                    }
                });
                let found: Vec<_> = found.collect();
                (rows_of(&found, length, &self.values)?, Some(NullBuffer::from(nulls)))
            }
        };
        let item = Arc::new(Field::new("item", self.values.clone(), true));
        // The length was already checked when the field was made.
        let lists = FixedSizeListArray::try_new(item, length as i32, values, nulls).or_fail()?;
        let Some(fill) = &self.fill else { return Ok((Arc::new(lists), bad)) };
        let all = Selection::of_one((0..rows as u32).collect());
        Ok((gather(&[&lists], &all, Some(fill))?, bad))
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Float32Array, Int32Array, ListArray};
    use forebay_arrow::buffer::OffsetBuffer;
    use forebay_arrow::datatypes::{Float32Type, Int32Type};

    use super::*;

    fn fixed(parameters: &str) -> Field {
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let metadata = [(EXTENSION_NAME, TENSOR), (EXTENSION_METADATA, parameters)];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Field::new("x", DataType::FixedSizeList(item, 6), true).with_metadata(HashMap::from(metadata))
    }

    fn hugging_face(features: &str) -> Declared {
        let metadata = HashMap::from([(HUGGINGFACE.to_owned(), features.to_owned())]);
        Declared::read(&Schema::empty().with_metadata(metadata))
    }

    fn ints() -> ArrayRef {
        let rows = [Some([0, 1, 2, 3, 4, 5].map(Some)), None, Some([6, 7, 8, 9, 10, 11].map(Some))];
        Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 6))
    }

    fn gathered(codec: &dyn Gather, column: &ArrayRef) -> GatheredRows {
        let rows = Selection::of_one((0..column.len() as u32).collect());
        codec.gather(&[column.as_ref()], &rows).unwrap()
    }

    #[test]
    fn arrows_tensors_have_their_shape_and_keep_their_nulls() {
        let field = fixed(r#"{"shape":[2,3],"dim_names":["a","b"]}"#);
        let codec = Declared::default().codec(&field, None).unwrap();
        let delivered = codec.delivered(&field).unwrap();
        assert_eq!(delivered.metadata()[EXTENSION_METADATA], r#"{"shape":[2,3]}"#);
        assert!(delivered.is_nullable());
        assert_eq!(&gathered(&*codec, &ints()).0, &ints());

        let field = fixed(r#"{"shape":[2,3],"permutation":[1,0]}"#);
        let codec = Declared::default().codec(&field, None).unwrap();
        let delivered = codec.delivered(&field).unwrap();
        assert_eq!(delivered.metadata()[EXTENSION_METADATA], r#"{"shape":[3,2]}"#);
        let (rows, _) = gathered(&*codec, &ints());
        assert_eq!(rows.data_type(), delivered.data_type());
        assert_eq!(rows.nulls(), ints().nulls());
        let row =
            |at: usize| rows.as_fixed_size_list().value(at).as_primitive::<Int32Type>().values().to_vec();
        assert_eq!((row(0), row(2)), (vec![0, 3, 1, 4, 2, 5], vec![6, 9, 7, 10, 8, 11]));

        let fill = Fill::from(-1.0);
        let codec = Declared::default().codec(&field, Some(&fill)).unwrap();
        assert!(!codec.delivered(&field).unwrap().is_nullable());
        let (rows, _) = gathered(&*codec, &ints());
        assert_eq!(rows.as_fixed_size_list().value(1).as_ref(), &Int32Array::from(vec![-1; 6]));
    }

    #[test]
    fn a_declaration_that_does_not_fit_counts_for_nothing() {
        let many = format!(r#"{{"shape":[2,3{}]}}"#, ",1".repeat(30));
        for parameters in [
            &many[..],
            "",
            "{}",
            r#"{"shape":[2,4]}"#,
            r#"{"shape":[-2,-3]}"#,
            r#"{"shape":[6,1,0]}"#,
            r#"{"shape":[2,3],"permutation":[0]}"#,
            r#"{"shape":[2,3],"permutation":[0,0]}"#,
            r#"{"shape":[4294967296,4294967296,2]}"#,
        ] {
            assert!(Declared::default().codec(&fixed(parameters), None).is_none(), "{parameters}");
        }
        for features in
            ["", "{}", r#"{"info":{"features":[]}}"#, r#"{"info":{"features":{"x":{"_type":1}}}}"#]
        {
            assert!(hugging_face(features).features.is_empty());
        }
        let item = Arc::new(Field::new("item", DataType::Float32, true));
        let nested = DataType::List(Arc::new(Field::new("item", DataType::List(item), true)));
        let field = Field::new("x", nested, true);
        for (shape, found) in [("[2,3]", true), ("[null,3]", false), ("[2,3,4]", false), ("[6]", false)] {
            let features =
                format!(r#"{{"info":{{"features":{{"x":{{"_type":"Array2D","shape":{shape}}}}}}}}}"#);
            let declared = hugging_face(&features);
            assert_eq!(declared.codec(&field, None).is_some(), found, "{shape}");
        }
    }

    #[test]
    fn arrays_of_hugging_face_are_dense_and_keep_their_nulls() {
        let values: ArrayRef = Arc::new(Float32Array::from_iter_values((0..18).map(|at| at as f32)));
        let list = |values: ArrayRef, lengths: &[usize], nulls: &[bool]| -> ArrayRef {
            let item = Arc::new(Field::new("item", values.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
            Arc::new(ListArray::new(item, offsets, values, Some(NullBuffer::from(nulls.to_vec()))))
        };
        let inner = list(values, &[3, 3, 3, 3, 0, 3, 3], &[true, true, true, true, false, true, true]);
        let column = list(inner, &[2, 0, 2, 2, 1], &[true, false, true, true, true]);
        let field = Field::new("x", column.data_type().clone(), true);
        let features = r#"{"info":{"features":{"x":{"_type":"Array2D","shape":[2,3],"dtype":"float32"}}}}"#;
        let declared = hugging_face(features);
        let codec = declared.codec(&field, None).unwrap();
        let (rows, bad) = gathered(&*codec, &column);
        assert_eq!(rows.data_type(), codec.delivered(&field).unwrap().data_type());
        assert_eq!(
            (0..5).map(|row| rows.is_valid(row)).collect::<Vec<_>>(),
            [true, false, true, false, false]
        );
        let row =
            |at: usize| rows.as_fixed_size_list().value(at).as_primitive::<Float32Type>().values().to_vec();
        assert_eq!(
            (row(0), row(2)),
            (vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![6.0, 7.0, 8.0, 9.0, 10.0, 11.0])
        );
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [4]);
        assert!(bad[0].1.to_string().contains("a list of 1 values where float32[2, 3] is declared"));

        let fill = Fill::from(9.0);
        let codec = declared.codec(&field, Some(&fill)).unwrap();
        let (rows, _) = gathered(&*codec, &column);
        assert_eq!((rows.null_count(), codec.delivered(&field).unwrap().is_nullable()), (0, false));
        assert_eq!(rows.as_fixed_size_list().value(3).as_ref(), &Float32Array::from(vec![9.0; 6]));
    }
}
