//! Delivers instance masks: one mask for each object in an image.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, LargeListArray, StructArray};
use forebay_arrow::buffer::{OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{Drawn, Instance, Size, decode_instance};
use serde::{Deserialize, Serialize};

use super::Followed;
use super::kept::{KeptBoxes, check_items};
use super::nested::{Nested, NestedType, RowPart};
use super::tuples::numbers;
use crate::column::tensor::{tensor, tensor_field};
use crate::column::{FollowImage, FollowedRows, GatheredRows, Noun, NullOptions, RowSize};

/// The first byte of a PNG. Run lengths never begin with it, so it tells the two formats apart.
const PNG: u8 = 0x89;

/// A column with a mask for each object of an image (instance masks). The masks are cropped, resized and
/// mirrored with the image, and resized without interpolation.
///
/// Each row is a list with an item for each object:
///
/// | item | mask |
/// |---|---|
/// | binary, or `struct<bytes, path>` | PNG of one channel: the object is where it is not 0 |
/// | `struct<counts, size>` | COCO's run lengths: `counts` as numbers, or as compressed text; `size` is height and width |
/// | text, or binary that is not PNG | compressed run lengths, of the image's size |
/// | a list of lists of numbers | COCO's polygons: `x, y, x, y, ...` each |
/// | a list of numbers, or of `[x, y]` of fixed length | one polygon |
///
/// Polygons are filled as by COCO's mask API. A row is delivered as a list of uint8 masks of shape
/// `[height, width]`, which are 1 for the object and 0 elsewhere. If the column is listed in
/// [`along`](crate::column::Boxes::along) of a column of boxes, the masks of dropped boxes are dropped
/// without being decoded.
///
/// A row is bad if it is null, if a mask has another size than its image, if run lengths do not add up to
/// that size, or if a polygon has fewer than three points. With
/// [`null_mask`](crate::LoaderBuilder::null_mask), a null list is delivered as an empty list; so are the
/// masks of a null image, if null images are delivered.
///
/// ```
/// use forebay::Image;
/// use forebay::column::{Boxes, Masks};
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// dataset
///     .loader()
///     .flatten(["objects"])
///     .decode("image", Image::scale_jitter(1024).flip())
///     .follow("objects.bbox", Boxes::following("image").min_visible(0.1).along(["objects.*"]))
///     .follow("objects.segmentation", Masks::following("image"))
///     .build()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Masks {
    pub(super) of: String,
}

impl Masks {
    /// Masks that follow the image in the column `image`.
    pub fn following(image: impl Into<String>) -> Masks {
        Masks { of: image.into() }
    }
}

/// The forms in which masks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredAs {
    /// PNG files, or COCO's run lengths as compressed text.
    Bytes,
    /// A structure with a PNG file in its field `bytes`.
    BytesOfStruct,
    /// A structure of COCO's run lengths: `counts` as compressed text, and `size`.
    Text,
    /// A structure of COCO's run lengths: `counts` as numbers, and `size`.
    Counts,
    Polygons,
    /// One polygon for each object, as a list of numbers.
    Polygon,
    /// One polygon for each object, as a list of `[x, y]` points.
    Points,
}

impl StoredAs {
    fn from_data_type(stored: &DataType) -> Result<Self> {
        let unfit = || {
            Error::invalid(format!("holds {}, not lists of masks of objects", TypeName(stored)))
                .hint("store a list of PNG, of COCO's run lengths (struct<counts, size>), or of polygons")
        };
        let (DataType::List(item) | DataType::LargeList(item)) = stored else { return Err(unfit()) };
        match item.data_type() {
            item if is_bytes(item) => Ok(StoredAs::Bytes),
            DataType::Struct(fields) => {
                let of = |name| fields.find(name).map(|(_, field)| field.data_type());
                match (of("bytes"), of("counts"), of("size")) {
                    (Some(bytes), ..) if is_bytes(bytes) => Ok(StoredAs::BytesOfStruct),
                    (_, Some(counts), Some(size)) if is_whole_numbers(size) => match counts {
                        counts if is_bytes(counts) => Ok(StoredAs::Text),
                        counts if is_whole_numbers(counts) => Ok(StoredAs::Counts),
                        _ => Err(unfit()),
                    },
                    _ => Err(unfit()),
                }
            }
            _ => match NestedType::from_data_type(stored).map_err(|_| unfit())? {
                NestedType { depth: 2, width: None } => Ok(StoredAs::Polygon),
                NestedType { depth: 3, width: None } => Ok(StoredAs::Polygons),
                NestedType { depth: 3, width: Some(2) } => Ok(StoredAs::Points),
                _ => Err(unfit()),
            },
        }
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::BinaryView
            | DataType::Utf8View
            | DataType::Binary
            | DataType::Utf8
            | DataType::LargeBinary
            | DataType::LargeUtf8
    )
}

/// Whether a type is a list of int32 or int64.
fn is_whole_numbers(data_type: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = data_type
    else {
        return false;
    };
    matches!(item.data_type(), DataType::Int32 | DataType::Int64)
}

/// The codec that delivers instance masks.
#[derive(Debug)]
pub(crate) struct MasksCodec {
    followed: Followed,
    /// The boxes that correspond to the masks, if masks are dropped with boxes.
    kept: Option<KeptBoxes>,
    /// Whether a null is delivered as an empty list, instead of being a bad row.
    is_masked: bool,
}

impl MasksCodec {
    pub(crate) fn new(followed: Followed, kept: Option<KeptBoxes>, nulls: NullOptions<'_>) -> Self {
        MasksCodec { followed, kept, is_masked: nulls.is_masked }
    }

    /// The field of one mask in a delivered list.
    fn item(&self) -> Result<Field> {
        let Size { height, width } = self.followed.image.size();
        tensor_field("item", &[height as usize, width as usize], DataType::UInt8)
    }

    /// The number of bytes of a delivered mask.
    fn bytes(&self) -> usize {
        let Size { height, width } = self.followed.image.size();
        height as usize * width as usize
    }

    /// Decodes the masks of a row and appends them to `made`.
    fn decode(
        &self,
        masks: &StoredMasks<'_>,
        row: usize,
        drawn: &Drawn,
        kept: Option<&[bool]>,
        rows: &dyn FollowedRows,
        made: &mut Vec<u8>,
    ) -> Result<()> {
        let range = masks.of_row(row)?;
        if let Some(kept) = kept {
            check_items(range.len(), kept.len())?;
        }
        let first = range.start;
        for item in range {
            if kept.is_some_and(|kept| !kept[item - first]) {
                continue;
            }
            let begin = made.len();
            made.try_reserve(self.bytes()).map_err(|_| too_large())?;
            made.resize(begin + self.bytes(), 0);
            let slot = &mut made[begin..];
            let decoded = masks.with(item, |instance, size| {
                decode_instance(rows.workspace(), &self.followed.image, drawn, instance, size, slot)
            });
            decoded.map_err(|error| error.about(&format!("object {}", item - first)))?;
        }
        Ok(())
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, "masks of objects do not fit the memory")
        .hint("use a smaller `batch_size`")
}

impl FollowImage for MasksCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        if let Some(kept) = &self.kept {
            kept.check()?;
        }
        StoredAs::from_data_type(stored.data_type())?;
        let item = Arc::new(self.item()?);
        Ok(Arc::new(Field::new(stored.name(), DataType::LargeList(item), false)))
    }

    fn image(&self) -> usize {
        self.followed.column
    }

    fn takes_mask(&self) -> bool {
        self.kept.is_none()
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let masks = StoredMasks::new(&gathered)?;
        let kept = self.kept.as_ref().map(|kept| kept.of_rows(rows)).transpose()?;
        let (mut values, mut offsets) = (Vec::new(), vec![0i64]);
        let bad = self.followed.each_row(rows, |row, drawn| {
            let begin = values.len();
            let kept = kept.as_ref().map(|kept| kept[row].as_deref());
            let decoded = match (drawn, kept) {
                (Some(_), _) if self.is_masked && masks.lists.is_null(row) => Ok(()),
                (Some(drawn), None) => self.decode(&masks, row, drawn, None, rows, &mut values),
                (Some(drawn), Some(Some(kept))) => {
                    self.decode(&masks, row, drawn, Some(kept), rows, &mut values)
                }
                // The image is null, or the image or the boxes are bad, which their own columns report.
                (None, _) | (_, Some(None)) => Ok(()),
            };
            if decoded.is_err() {
                values.truncate(begin);
            }
            offsets.push((values.len() / self.bytes()) as i64);
            decoded
        })?;
        let (item, masks) = (self.item()?, values.len() / self.bytes());
        let values = tensor(&item, values.into(), masks)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok((Arc::new(LargeListArray::try_new(Arc::new(item), offsets, values, None).or_fail()?), bad))
    }

    fn size(&self) -> RowSize {
        RowSize { is_by_cell: true, ..RowSize::default() }
    }

    /// The bytes of a row, if every stored mask is delivered. Masks that are dropped with their boxes count
    /// too.
    fn row_bytes(&self, stored: &dyn Array, row: usize) -> Option<u64> {
        let items = match (stored.as_list_opt::<i32>(), stored.as_list_opt::<i64>()) {
            (Some(lists), _) => lists.value_length(row) as usize,
            (_, Some(lists)) => lists.value_length(row) as usize,
            _ => return None,
        };
        Some((items.min(MOST_ITEMS) * self.bytes()) as u64)
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of masks", several: "masks" }
    }
}

/// The largest number of masks that the estimate of a row's bytes counts. The limit is needed because other
/// processes may change the lengths of memory-mapped lists.
const MOST_ITEMS: usize = 1 << 20;

/// The stored masks of all rows.
struct StoredMasks<'a> {
    lists: &'a LargeListArray,
    stored: StoredAs,
    /// The polygons of the objects, if masks are stored as polygons. Each row of these nested lists belongs
    /// to one object.
    polygons: Option<Nested<'a>>,
}

impl<'a> StoredMasks<'a> {
    fn new(gathered: &'a ArrayRef) -> Result<Self> {
        let unfit = || Error::new(ErrorKind::Internal, format!("{} holds no masks", gathered.data_type()));
        let lists = gathered.as_list_opt::<i64>().ok_or_else(unfit)?;
        let stored = StoredAs::from_data_type(gathered.data_type())?;
        let polygons = match stored {
            StoredAs::Polygons | StoredAs::Polygon | StoredAs::Points => {
                Some(Nested::new(lists.values().as_ref())?)
            }
            _ => None,
        };
        Ok(StoredMasks { lists, stored, polygons })
    }

    /// The indices of a row's masks among the masks of all rows.
    fn of_row(&self, row: usize) -> Result<std::ops::Range<usize>> {
        if self.lists.is_null(row) {
            return Err(Error::new(ErrorKind::BadRow, "null where a list of masks is needed")
                .hint("store an empty list for a row without any, or name the column in `null_mask`"));
        }
        let offsets = self.lists.value_offsets();
        Ok(offsets[row] as usize..offsets[row + 1] as usize)
    }

    /// Calls `decode` with the mask number `item`, and with the size that is stored with it, if any.
    fn with(&self, item: usize, decode: impl FnOnce(Instance<'_>, Option<Size>) -> Result<()>) -> Result<()> {
        let values = self.lists.values();
        if values.is_null(item) {
            return Err(Error::new(ErrorKind::BadRow, "null in place of a mask"));
        }
        let of_bytes = |bytes: &ArrayRef, decode: &mut dyn FnMut(Instance<'_>) -> Result<()>| {
            let bytes = bytes_of(bytes.as_ref(), item)?;
            decode(match bytes.first() {
                Some(&PNG) => Instance::Png(bytes),
                _ if self.stored == StoredAs::BytesOfStruct => Instance::Png(bytes),
                _ => Instance::Text(bytes),
            })
        };
        let mut decode = Some(decode);
        let mut decode = |instance: Instance<'_>, size| match decode.take() {
            Some(decode) => decode(instance, size),
            None => Ok(()),
        };
        match self.stored {
            StoredAs::Bytes => of_bytes(values, &mut |instance| decode(instance, None)),
            StoredAs::BytesOfStruct => {
                of_bytes(child(values.as_struct(), "bytes")?, &mut |instance| decode(instance, None))
            }
            StoredAs::Text => {
                let size = size_of_item(values.as_struct(), item)?;
                let text = bytes_of(child(values.as_struct(), "counts")?.as_ref(), item)?;
                decode(Instance::Text(text), Some(size))
            }
            StoredAs::Counts => {
                let size = size_of_item(values.as_struct(), item)?;
                let counts = whole_numbers(child(values.as_struct(), "counts")?, item, "counts")?;
                decode(Instance::Counts(&counts), Some(size))
            }
            StoredAs::Polygons | StoredAs::Polygon | StoredAs::Points => {
                let mut polygons: Vec<Vec<f64>> = Vec::new();
                let is_joined = self.stored == StoredAs::Points;
                if let Some(stored) = &self.polygons {
                    stored.row(item, "polygons", &mut |part| {
                        match (part, polygons.last_mut()) {
                            (RowPart::Numbers { numbers, .. }, Some(last)) if is_joined => {
                                last.extend_from_slice(numbers);
                            }
                            (RowPart::Numbers { numbers, .. }, _) => polygons.push(numbers.to_vec()),
                            (RowPart::End { .. }, _) => {}
                        }
                        Ok(())
                    })?;
                }
                let polygons: Vec<&[f64]> = polygons.iter().map(Vec::as_slice).collect();
                decode(Instance::Polygons(&polygons), None)
            }
        }
    }
}

fn child<'a>(structures: &'a StructArray, name: &str) -> Result<&'a ArrayRef> {
    structures
        .column_by_name(name)
        .ok_or_else(|| Error::new(ErrorKind::Internal, format!("there is no field {name:?}")))
}

fn null_in(name: &str) -> Error {
    Error::new(ErrorKind::BadRow, format!("null in {name} of a mask"))
}

/// The bytes of item `item` in an array of binary values or texts.
fn bytes_of(values: &dyn Array, item: usize) -> Result<&[u8]> {
    if values.is_null(item) {
        return Err(Error::new(ErrorKind::BadRow, "null in place of a mask"));
    }
    match (values.as_binary_opt::<i64>(), values.as_string_opt::<i64>()) {
        (Some(bytes), _) => Ok(bytes.value(item)),
        (_, Some(texts)) => Ok(texts.value(item).as_bytes()),
        _ => Err(Error::new(ErrorKind::Internal, format!("masks of type {}", values.data_type()))),
    }
}

/// The numbers of list `item` in an array of lists of integers; `name` is the field in error messages.
fn whole_numbers(lists: &ArrayRef, item: usize, name: &str) -> Result<Vec<i64>> {
    if lists.is_null(item) {
        return Err(null_in(name));
    }
    let values = match (lists.as_list_opt::<i64>(), lists.as_fixed_size_list_opt()) {
        (Some(lists), _) => lists.value(item),
        (_, Some(lists)) => lists.value(item),
        _ => return Err(Error::new(ErrorKind::Internal, format!("{name} of another type"))),
    };
    if values.null_count() > 0 {
        return Err(null_in(name));
    }
    Ok(numbers(values.as_ref())?.into_iter().map(|number| number as i64).collect())
}

/// The height and width that are stored with a mask.
fn size_of_item(structures: &StructArray, item: usize) -> Result<Size> {
    let sides = whole_numbers(child(structures, "size")?, item, "size")?;
    let side = |at: usize| sides.get(at).and_then(|side| u32::try_from(*side).ok());
    match (side(0), side(1), sides.len()) {
        (Some(height), Some(width), 2) => Ok(Size { height, width }),
        _ => Err(Error::new(ErrorKind::BadRow, format!("{sides:?} as the size of a mask"))
            .hint("the size of run lengths is [height, width]")),
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{
        FixedSizeListArray, Float64Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray,
    };

    use super::*;

    fn item(values: &ArrayRef) -> FieldRef {
        Arc::new(Field::new("item", values.data_type().clone(), true))
    }

    fn lists<const N: usize>(values: &ArrayRef, lengths: [usize; N]) -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(lengths);
        Arc::new(LargeListArray::new(item(values), offsets, values.clone(), None))
    }

    fn pairs(values: &ArrayRef) -> ArrayRef {
        Arc::new(FixedSizeListArray::new(item(values), 2, values.clone(), None))
    }

    fn run_lengths(counts: &ArrayRef, size: &ArrayRef) -> ArrayRef {
        let fields = [("counts", counts), ("size", size)];
        let field = |(name, values): (&str, &ArrayRef)| {
            (Arc::new(Field::new(name, values.data_type().clone(), true)), values.clone())
        };
        Arc::new(StructArray::from(fields.map(field).to_vec()))
    }

    /// The numbers of a mask, and the size that is stored with it.
    type NumbersAndSize = (Vec<Vec<f64>>, Option<Size>);

    fn decoded(masks: &ArrayRef) -> Result<Vec<NumbersAndSize>> {
        let row = lists(masks, [masks.len()]);
        let masks = StoredMasks::new(&row)?;
        let each = masks.of_row(0)?.map(|item| {
            let mut found = None;
            masks.with(item, |instance, size| {
                let numbers = match instance {
                    Instance::Polygons(polygons) => polygons.iter().map(|polygon| polygon.to_vec()).collect(),
                    Instance::Counts(counts) => vec![counts.iter().map(|count| *count as f64).collect()],
                    Instance::Text(bytes) | Instance::Png(bytes) => {
                        vec![bytes.iter().map(|byte| f64::from(*byte)).collect()]
                    }
                };
                found = Some((numbers, size));
                Ok(())
            })?;
            Ok(found.unwrap())
        });
        each.collect()
    }

    #[test]
    fn a_polygon_has_the_same_points_in_each_form() {
        let numbers: ArrayRef = Arc::new(Float64Array::from_iter_values((0..14).map(f64::from)));
        let (triangle, square): (Vec<f64>, Vec<f64>) =
            ((0..6).map(f64::from).collect(), (6..14).map(f64::from).collect());
        let expected = vec![(vec![triangle], None), (vec![square], None)];
        let flat = lists(&numbers, [6, 8]);
        for masks in [&flat, &lists(&flat, [1, 1]), &lists(&pairs(&numbers), [3, 4])] {
            assert_eq!(decoded(masks).unwrap(), expected, "{}", masks.data_type());
        }
        let both: Vec<Vec<f64>> = expected.into_iter().flat_map(|(polygons, _)| polygons).collect();
        assert_eq!(decoded(&lists(&flat, [2, 0])).unwrap(), [(both, None), (vec![], None)]);
    }

    #[test]
    fn run_lengths_come_with_their_height_and_width() {
        let numbers = [60, 4, 5, 1];
        let wide: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let narrow: ArrayRef = Arc::new(Int32Array::from(numbers.map(|number| number as i32).to_vec()));
        let sides: ArrayRef = Arc::new(Int32Array::from(vec![8, 9, 2, 3]));
        let text: ArrayRef = Arc::new(LargeStringArray::from(vec!["<\u{4}", "\u{5}\u{1}"]));
        let bytes: ArrayRef = Arc::new(LargeBinaryArray::from(vec![&b"<\x04"[..], b"\x05\x01"]));
        let expected = |first: Option<Size>, second| {
            [(vec![vec![60.0, 4.0]], first), (vec![vec![5.0, 1.0]], second)].to_vec()
        };
        for counts in
            [lists(&wide, [2, 2]), lists(&narrow, [2, 2]), pairs(&wide), text.clone(), bytes.clone()]
        {
            for size in [lists(&sides, [2, 2]), pairs(&sides)] {
                let of_size = |height, width| Some(Size { height, width });
                let masks = run_lengths(&counts, &size);
                assert_eq!(decoded(&masks).unwrap(), expected(of_size(8, 9), of_size(2, 3)));
            }
        }
        for masks in [text, bytes] {
            assert_eq!(decoded(&masks).unwrap(), expected(None, None), "the size of the image");
        }
    }

    #[test]
    fn run_lengths_with_a_null_or_without_two_sides_are_bad() {
        let numbers =
            |numbers: [Option<i64>; 2]| -> ArrayRef { Arc::new(Int64Array::from(numbers.to_vec())) };
        let pair = |first, second| pairs(&numbers([first, second]));
        let good = pair(Some(8), Some(9));
        for (counts, size, said) in [
            (&pair(Some(1), None), &good, "null in counts of a mask"),
            (&good, &pair(None, Some(9)), "null in size of a mask"),
            (&good, &pair(Some(-8), Some(9)), "[-8, 9] as the size of a mask"),
            (&good, &pair(Some(8), Some(1 << 32)), "[8, 4294967296] as the size of a mask"),
            (&lists(&numbers([Some(8); 2]), [2]), &lists(&numbers([Some(8); 2]), [1]), "[8] as the size"),
        ] {
            let error = decoded(&run_lengths(counts, size)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadRow);
            assert!(error.cause().starts_with(said), "{error}");
        }
    }

    #[test]
    fn the_memory_of_a_row_is_that_of_all_its_masks() {
        let image = forebay_image::Image::resize(5, 7);
        let followed =
            Followed { column: 0, name: "image".into(), image, of: None, view: None, around: None };
        let codec = MasksCodec::new(followed, None, NullOptions::default());
        let masks: ArrayRef = Arc::new(LargeBinaryArray::from(vec![&b"a"[..]; 5]));
        let rows = lists(&masks, [3, 0, 2]);
        let bytes = [0, 1, 2].map(|row| codec.row_bytes(rows.as_ref(), row));
        assert_eq!(bytes, [3, 0, 2].map(|masks| Some(masks * 5 * 7)));
        assert_eq!(codec.row_bytes(masks.as_ref(), 0), None);
    }
}
