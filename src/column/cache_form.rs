//! [`CacheForm`]: a form in which the row cache may keep rows, such as pixels in place of the stored images.

use std::fmt::Write;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, RecordBatch, StructArray};
use forebay_arrow::datatypes::Schema;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use forebay_image::Workspace;

use super::cell::Cells;
use super::{Codec, Cost, KeptForm};
use crate::cache::Tier;

/// A form in which the row cache may keep the selected columns. Columns that support the tier (such as
/// pixels) are kept in it, and the other columns as they are stored.
#[derive(Debug)]
pub(crate) struct CacheForm {
    tier: Tier,
    key: String,
    columns: Vec<(usize, Arc<dyn KeptForm>)>,
}

impl CacheForm {
    /// All forms that the codecs of the columns support, best first. `stored` is the schema of the stored
    /// columns.
    pub(crate) fn all(codecs: &[Codec], stored: &Schema) -> Vec<Arc<CacheForm>> {
        let mut tiers: Vec<CacheForm> = Vec::new();
        for (column, (codec, field)) in codecs.iter().zip(stored.fields()).enumerate() {
            for form in codec.forms(field.data_type()) {
                let tier = form.tier();
                let at = tiers.iter().position(|found| found.tier == tier).unwrap_or_else(|| {
                    tiers.push(CacheForm { tier, key: String::new(), columns: Vec::new() });
                    tiers.len() - 1
                });
                // Writing to a String cannot fail.
                let _ = write!(tiers[at].key, "; column {column}: {}", form.key());
                tiers[at].columns.push((column, form));
            }
        }
        tiers.into_iter().map(Arc::new).collect()
    }

    /// The tier by whose name users select the form.
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// The part of a cache entry's key that says in which form the entry keeps its cells.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The number of columns that are kept in another form than the stored one.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The average cost of a row in this form, measured on about `samples` rows: bytes are added up over the
    /// columns, and the work of decoding is averaged. `None` if all cells of a column are null or bad.
    pub(crate) fn cost(&self, rows: &RecordBatch, samples: usize) -> Option<Cost> {
        let mut all = Cost::default();
        let step = (rows.num_rows() / samples).max(1);
        for (column, form) in &self.columns {
            let cells = Cells::new(rows.column(*column).as_ref()).ok()?;
            let sampled = (0..rows.num_rows()).step_by(step);
            let costs: Vec<Cost> = sampled.filter_map(|row| form.cost(cells.get(row).ok()??).ok()).collect();
            let count = (!costs.is_empty()).then_some(costs.len() as f64)?;
            all.bytes += costs.iter().map(|cost| cost.bytes).sum::<f64>() / count;
            all.decoding +=
                costs.iter().map(|cost| cost.decoding).sum::<f64>() / count / self.columns.len() as f64;
        }
        Some(all)
    }

    /// Converts the cells of `rows` to this form. A cell that cannot be decoded is kept as it is stored, and
    /// becomes a bad row when it is delivered.
    ///
    /// Returns `None` if the cells take more than `most` bytes, or if the first cell suggests that they will.
    pub(crate) fn make(
        &self,
        rows: &RecordBatch,
        most: u64,
        workspace: &Workspace,
    ) -> Result<Option<RecordBatch>> {
        let mut made = 0;
        let mut columns = rows.columns().to_vec();
        for (column, form) in &self.columns {
            let stored = rows.column(*column);
            let cells = Cells::new(stored.as_ref())?;
            let each = || (0..rows.num_rows()).map(|row| cells.get(row));
            let bytes =
                each().flatten().flatten().find_map(|cell| form.cost(cell).ok()).unwrap_or_default().bytes;
            if bytes * rows.num_rows() as f64 > most as f64 {
                return Ok(None);
            }
            let mut kept = BinaryViewBuilder::with_capacity(rows.num_rows());
            for cell in each() {
                match cell?.map(|cell| (form.make(cell, workspace), cell)) {
                    Some((Ok(bytes), _)) => {
                        made += bytes.len() as u64;
                        if made > most {
                            return Ok(None);
                        }
                        kept.append_value(bytes);
                    }
                    Some((Err(_), cell)) => kept.append_value(cell),
                    None => kept.append_null(),
                }
            }
            columns[*column] = with_bytes(stored, Arc::new(kept.finish()))?;
        }
        Ok(Some(RecordBatch::try_new(rows.schema(), columns).or_fail()?))
    }
}

/// Replaces the bytes of a column. In a `struct<bytes, path>` these are the field `bytes`; the other fields
/// are kept.
fn with_bytes(stored: &ArrayRef, bytes: ArrayRef) -> Result<ArrayRef> {
    let Some(fields) = stored.as_struct_opt() else { return Ok(bytes) };
    let (types, mut children, nulls) = fields.clone().into_parts();
    for (field, child) in types.iter().zip(&mut children).filter(|(field, _)| field.name() == "bytes") {
        debug_assert_eq!(field.data_type(), bytes.data_type());
        *child = bytes.clone();
    }
    Ok(Arc::new(StructArray::try_new(types, children, nulls).or_fail()?))
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::BinaryViewArray;
    use forebay_arrow::datatypes::{DataType, Field};
    use forebay_image::{Image, encode_jpeg};

    use super::*;
    use crate::column::{ImageCodec, PlainCodec};

    fn codecs() -> Vec<Codec> {
        let crop = Image::random_resized_crop(224).flip();
        vec![
            Codec::Gather(Arc::new(PlainCodec::default())),
            Codec::Cells(Arc::new(ImageCodec::new(crop))),
            Codec::Cells(Arc::new(ImageCodec::new(Image::center_crop(16)))),
        ]
    }

    fn stored(second: DataType) -> Schema {
        Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("first", DataType::BinaryView, true),
            Field::new("second", second, true),
        ])
    }

    /// Other processes find their cache entries by these keys, so the keys must not change.
    #[test]
    fn keys_stay_as_they_were() {
        let forms = CacheForm::all(&codecs(), &stored(DataType::BinaryView));
        let spec = |framing, side| {
            format!(
                "{{\"framing\":\"{framing}\",\"size\":{{\"height\":{side},\"width\":{side}}},\"flip\":0.0,\
                 \"dtype\":\"uint8\",\"layout\":\"NHWC\",\"grayscale\":false,\"exif_orientation\":false,\
                 \"max_pixels\":178956970}}"
            )
        };
        let (crop, center) = ("random_resized_crop", "center_crop");
        let (whole, resized, small) = (spec(crop, 0), spec(crop, 224), spec(center, 16));
        let expected = [
            (Tier::Pixels, format!("; column 1: pixels of {whole}; column 2: pixels of {small}")),
            (Tier::Resized, format!("; column 1: JPEG 95 of {resized}; column 2: JPEG 95 of {small}")),
            (Tier::Coefficients, "; column 1: coefficients 1; column 2: coefficients 1".into()),
        ];
        assert_eq!(forms.iter().map(|form| (form.tier(), form.key.clone())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn cells_of_one_length_cannot_be_kept_in_another_form() {
        let forms = CacheForm::all(&codecs(), &stored(DataType::FixedSizeBinary(9)));
        assert!(forms.iter().all(|form| form.columns() == 1 && !form.key().contains("column 2")));
        assert!(
            CacheForm::all(&[Codec::Gather(Arc::new(PlainCodec::default()))], &stored(DataType::BinaryView))
                .is_empty()
        );
    }

    #[test]
    fn a_form_costs_what_is_made_in_it_and_bad_cells_stay_as_they_are() {
        let jpeg = encode_jpeg(&vec![7; 60 * 40 * 3], 60, 40, 90).unwrap();
        let cells = BinaryViewArray::from(vec![Some(&b"no image"[..]), None, Some(&jpeg)]);
        let rows = RecordBatch::try_from_iter([("image", Arc::new(cells) as ArrayRef)]).unwrap();
        let codecs = [Codec::Cells(Arc::new(ImageCodec::new(Image::center_crop(16))))];
        let forms = CacheForm::all(&codecs, &rows.schema());
        let pixels = &forms[0];
        let workspace = Workspace::of_loader(1 << 30, 1);
        let cost = pixels.cost(&rows, 16).unwrap();
        assert_eq!((pixels.tier(), cost.decoding), (Tier::Pixels, 0.0));
        let made = pixels.make(&rows, 1 << 20, &workspace).unwrap().unwrap();
        let made = made.column(0).as_binary_view();
        assert_eq!((made.value(0), made.is_null(1)), (&b"no image"[..], true));
        assert_eq!(made.value(2).len() as f64, cost.bytes);
        assert!(pixels.make(&rows, 800, &workspace).unwrap().is_none(), "3 rows of 788 bytes are too many");
    }

    /// A form that keeps cells as they are, and takes any cell for one of one byte.
    #[derive(Debug)]
    struct Verbatim;

    impl KeptForm for Verbatim {
        fn tier(&self) -> Tier {
            Tier::Pixels
        }

        fn key(&self) -> String {
            String::new()
        }

        fn cost(&self, _: &[u8]) -> Result<Cost> {
            Ok(Cost { bytes: 1.0, decoding: 0.5 })
        }

        fn make<'a>(&self, cell: &'a [u8], _: &Workspace) -> Result<std::borrow::Cow<'a, [u8]>> {
            Ok(cell.into())
        }
    }

    #[test]
    fn the_kept_cells_of_all_columns_take_no_more_bytes_than_they_may() {
        let cells: ArrayRef =
            Arc::new(BinaryViewArray::from(vec![Some(&b"a"[..]), None, Some(&b"bcdef"[..])]));
        let rows = RecordBatch::try_from_iter([("x", cells.clone()), ("y", cells)]).unwrap();
        let form = |columns: &[usize]| {
            let columns = columns.iter().map(|column| (*column, Arc::new(Verbatim) as Arc<dyn KeptForm>));
            CacheForm { tier: Tier::Pixels, key: String::new(), columns: columns.collect() }
        };
        let workspace = Workspace::of_loader(1 << 20, 1);
        for (columns, bytes) in [(&[1][..], 6), (&[0, 1][..], 12)] {
            let made = |most| form(columns).make(&rows, most, &workspace).unwrap();
            assert_eq!(made(bytes), Some(rows.clone()));
            assert_eq!(made(bytes - 1), None, "{columns:?}");
            let cost = form(columns).cost(&rows, 3).unwrap();
            assert_eq!(cost, Cost { bytes: columns.len() as f64, decoding: 0.5 });
        }
    }
}
