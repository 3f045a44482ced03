//! Delivers columns of text, or of binary values that hold text, and checks each cell: it must be UTF-8 and,
//! if the column has the JSON format, valid JSON.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, AsArray, LargeBinaryArray, LargeStringArray, LargeStringBuilder,
};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Column, ColumnOption, Gather, GatheredRows, NullOptions};
use crate::batch::{Fill, Selection, gather};

/// The key in a field's metadata for the format of its text.
const HOLDS: &str = "forebay.text";
/// In a JSON column with a `null_mask`, nulls are delivered as this text, unless `fill_null` gives another.
const JSON_NULL: &str = "null";
/// The deepest nesting of JSON that is accepted. Python's parser gives up at some greater depth.
const MAX_NESTING: usize = 500;
/// The most consecutive digits in a number of JSON. Python refuses longer integers.
const MAX_DIGITS: usize = 4300;

/// The format of the text in a column. Each cell is checked for it.
///
/// Pass it to a loader with [`LoaderBuilder::decode_text`](crate::LoaderBuilder::decode_text). The column may
/// be stored as text or as binary, and is delivered as text (`LargeUtf8`). A cell that is not in the format
/// is a bad row.
///
/// ```
/// use forebay::column::TextFormat;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// dataset.loader().decode_text("caption", TextFormat::Plain).decode_text("meta", TextFormat::Json).build()
/// # }
/// assert_eq!(TextFormat::Json.name(), "json");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TextFormat {
    /// UTF-8. A null is a bad row, unless the column has `fill_null` or `null_mask`.
    Plain,
    /// A JSON value. A null is delivered as a null, unless the column has `fill_null` or `null_mask`. JSON
    /// that is nested more than 500 deep, or has a number with more than 4300 digits in a row, is a bad row,
    /// since Python may not be able to parse it.
    Json,
}

impl TextFormat {
    /// All formats.
    pub const ALL: [TextFormat; 2] = [TextFormat::Plain, TextFormat::Json];

    /// The name: `plain` or `json`.
    pub fn name(self) -> &'static str {
        match self {
            TextFormat::Plain => "plain",
            TextFormat::Json => "json",
        }
    }

    /// The format of a delivered column; `None` if no format was asked for.
    pub fn from_field(delivered: &Field) -> Option<TextFormat> {
        let name = delivered.metadata().get(HOLDS)?;
        TextFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The reason why a text is not in this format; `None` if it is.
    fn fault(self, text: &str) -> Option<String> {
        match self {
            TextFormat::Plain => None,
            TextFormat::Json => json_fault(text),
        }
    }
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ColumnOption for TextFormat {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn takes_whole() -> bool {
        true
    }

    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        Column::gathered(TextCodec::new(*self, stored, nulls)?, stored).map(Some)
    }
}

fn json_fault(text: &str) -> Option<String> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let cause = error.to_string();
        // The cause contains the line and the column.
        return Some(format!("not JSON: {cause}"));
    }
    let (mut depth, mut digits) = (0usize, 0usize);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            (in_string, is_escaped) = match byte {
                _ if is_escaped => (true, false),
                b'\\' => (true, true),
                other => (other != b'"', false),
            };
            continue;
        }
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth > MAX_NESTING {
            return Some(format!("JSON that is nested more than {MAX_NESTING} deep"));
        }
        if digits > MAX_DIGITS {
            return Some(format!("JSON with a number of more than {MAX_DIGITS} digits"));
        }
    }
    None
}

/// Delivers the text of a column, and reports cells that are not in its format as bad rows.
#[derive(Debug)]
pub(crate) struct TextCodec {
    format: TextFormat,
    fill: Option<Fill>,
}

impl TextCodec {
    /// The fill, if there is one, replaces nulls. Without a fill, a column with a mask delivers a null as an
    /// empty text, or as `null` if it is JSON.
    ///
    /// Fails with `Invalid` for a column that holds neither text nor binary values, and for a fill that is
    /// not in the format.
    pub(crate) fn new(format: TextFormat, stored: &Field, nulls: NullOptions<'_>) -> Result<Self> {
        if !matches!(stored.data_type(), DataType::Utf8View | DataType::BinaryView) {
            return Err(Error::invalid(format!("holds {}, not text", TypeName(stored.data_type())))
                .hint("columns of text are decoded as text, and of binary that holds it"));
        }
        let NullOptions { fill, is_masked } = nulls;
        let fill = match (fill, format) {
            (None, TextFormat::Plain) if is_masked => Some(Fill::from("")),
            (None, TextFormat::Json) if is_masked => Some(Fill::from(JSON_NULL)),
            (fill, _) => fill.cloned(),
        };
        if let Some(value) = &fill {
            value.check(&DataType::Utf8View)?;
            if let Fill::Text(text) = value
                && let Some(fault) = format.fault(text)
            {
                return Err(Error::invalid(format!("fill_null value {value} is {fault}")));
            }
        }
        Ok(TextCodec { format, fill })
    }
}

impl Gather for TextCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let is_nullable = self.format == TextFormat::Json && self.fill.is_none() && stored.is_nullable();
        let metadata = [(HOLDS.to_owned(), self.format.name().to_owned())];
        let field = Field::new(stored.name(), DataType::LargeUtf8, is_nullable);
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn takes_mask(&self) -> bool {
        true
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let gathered = gather(sources, selection, self.fill.as_ref())?;
        let (texts, mut refused) = match gathered.as_binary_opt::<i64>() {
            Some(cells) => texts_of(cells),
            None => (gathered.as_string::<i64>().clone(), Vec::new()),
        };
        let bad = |row: usize, cause: String| (row, Error::new(ErrorKind::BadRow, cause));
        match self.format {
            TextFormat::Plain => {
                let nulls = (0..texts.len()).filter(|row| texts.is_null(*row));
                refused.extend(nulls.map(|row| {
                    let (row, error) = bad(row, "null where a text is needed".to_owned());
                    (row, error.hint("give a text with `fill_null`, or a mask with `null_mask`"))
                }));
            }
            TextFormat::Json => {
                let is_refused = |row: &usize| refused.binary_search_by_key(row, |(row, _)| *row).is_ok();
                let rows = (0..texts.len()).filter(|row| texts.is_valid(*row) && !is_refused(row));
                let faults = rows.filter_map(|row| Some(bad(row, json_fault(texts.value(row))?)));
                let faults: Vec<_> = faults.collect();
                refused.extend(faults);
            }
        }
        refused.sort_by_key(|(row, _)| *row);
        if self.format == TextFormat::Plain && texts.null_count() > 0 {
            // The delivered field is not nullable, so the nulls are dropped from the array. Their rows are
            // bad and are left out anyway.
            let (offsets, values, _) = texts.into_parts();
            return Ok((Arc::new(LargeStringArray::new(offsets, values, None)), refused));
        }
        Ok((Arc::new(texts) as ArrayRef, refused))
    }
}

/// Binary values as text, with an empty text in place of each value that is not UTF-8, and the errors of
/// those rows.
fn texts_of(cells: &LargeBinaryArray) -> (LargeStringArray, Vec<(usize, Error)>) {
    let (offsets, values, nulls) = cells.clone().into_parts();
    if let Ok(texts) = LargeStringArray::try_new(offsets, values, nulls) {
        return (texts, Vec::new());
    }
    let mut refused = Vec::new();
    let mut texts = LargeStringBuilder::with_capacity(cells.len(), cells.values().len());
    for (row, cell) in cells.iter().enumerate() {
        match cell.map(std::str::from_utf8).transpose() {
            Ok(text) => texts.append_option(text),
            Err(error) => {
                let cause = format!("not UTF-8: the first wrong byte is number {}", error.valid_up_to());
                refused.push((row, Error::new(ErrorKind::BadRow, cause)));
                texts.append_value("");
            }
        }
    }
    (texts.finish(), refused)
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{BinaryViewArray, StringViewArray};

    use super::*;

    fn delivered(
        format: TextFormat,
        column: &dyn Array,
        fill: Option<&str>,
    ) -> (Vec<Option<String>>, Vec<(usize, String)>) {
        let field = Field::new("x", column.data_type().clone(), true);
        let fill = fill.map(Fill::from);
        let codec =
            TextCodec::new(format, &field, NullOptions { fill: fill.as_ref(), is_masked: false }).unwrap();
        let all = Selection::of_one((0..column.len() as u32).collect());
        let (rows, refused) = codec.gather(&[column], &all).unwrap();
        let expected = codec.delivered(&field).unwrap();
        assert_eq!(
            (rows.data_type(), TextFormat::from_field(&expected)),
            (expected.data_type(), Some(format))
        );
        assert!(expected.is_nullable() || rows.null_count() == 0);
        let rows = rows.as_string::<i64>().iter().map(|row| row.map(str::to_owned)).collect();
        (rows, refused.into_iter().map(|(row, error)| (row, error.to_string())).collect())
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn text_is_what_is_utf_8() {
        let texts = StringViewArray::from(vec![Some("a"), None, Some("é")]);
        let (rows, refused) = delivered(TextFormat::Plain, &texts, None);
        assert_eq!((rows, refused[0].0, refused.len()), (some(&["a", "", "é"]), 1, 1));
        assert!(refused[0].1.contains("null where a text is needed"), "{}", refused[0].1);
        assert_eq!(delivered(TextFormat::Plain, &texts, Some("none")), (some(&["a", "none", "é"]), vec![]));
        let cells = BinaryViewArray::from(vec![
            Some(&b"ab"[..]),
            Some(b"a\xff"),
            Some(b"\xc3"),
            Some("é".as_bytes()),
        ]);
        let (rows, refused) = delivered(TextFormat::Plain, &cells, None);
        assert_eq!(rows, some(&["ab", "", "", "é"]));
        assert_eq!(refused.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 2]);
        assert!(refused[0].1.contains("not UTF-8: the first wrong byte is number 1"), "{}", refused[0].1);
        // Each cell holds half of the bytes of a character. The cells are not valid UTF-8, although their
        // bytes together are.
        let halves = BinaryViewArray::from(vec![Some(&b"\xc3"[..]), Some(b"\xa9")]);
        assert_eq!(delivered(TextFormat::Plain, &halves, None).1.len(), 2);
    }

    #[test]
    fn json_is_one_value() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let long = |digits: usize| format!("{{\"a\": [{}]}}", "1".repeat(digits));
        let brackets = format!("{{\"{}\\\"{}\": 1}}", "[".repeat(600), "1".repeat(5_000));
        let good = [
            "{}",
            " [1, 2.5e3, \"\\u00e9\", null] ",
            "\"text\"",
            "-0.0",
            &deep(500),
            &long(4_300),
            &brackets,
        ];
        let texts = StringViewArray::from(good.to_vec());
        assert_eq!(delivered(TextFormat::Json, &texts, None), (some(&good), vec![]));
        let bad = [
            "",
            "{",
            "{'a': 1}",
            "NaN",
            "[1,]",
            "1 2",
            "\u{feff}1",
            "01",
            "\"a\nb\"",
            &deep(501),
            &long(4_301),
        ];
        for text in bad {
            let (_, refused) = delivered(TextFormat::Json, &StringViewArray::from(vec!["1", text]), None);
            assert!(
                refused.len() == 1 && refused[0].0 == 1 && refused[0].1.contains("JSON"),
                "{text}: {refused:?}"
            );
        }
        let (_, refused) = delivered(TextFormat::Json, &StringViewArray::from(vec!["{\n  \"a\": x}"]), None);
        assert!(refused[0].1.contains("line 2 column 8"), "{}", refused[0].1);
        let cells = BinaryViewArray::from(vec![Some(&b"{}"[..]), None, Some(b"\xff"), Some(b"}")]);
        let (rows, refused) = delivered(TextFormat::Json, &cells, None);
        assert_eq!((rows[1].as_ref(), refused[0].0, refused[1].0, refused.len()), (None, 2, 3, 2));
        assert_eq!(
            delivered(TextFormat::Json, &cells.slice(0, 2), Some("[]")),
            (some(&["{}", "[]"]), vec![])
        );
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let new = |format, stored, fill: Option<Fill>| {
            let nulls = NullOptions { fill: fill.as_ref(), is_masked: false };
            TextCodec::new(format, &Field::new("x", stored, true), nulls).unwrap_err().to_string()
        };
        assert!(new(TextFormat::Plain, DataType::Int8, None).contains("holds int8, not text"));
        assert!(new(TextFormat::Json, DataType::FixedSizeBinary(2), None).contains("not text"));
        assert!(new(TextFormat::Plain, DataType::BinaryView, Some(1.0.into())).contains("give a text"));
        assert!(new(TextFormat::Json, DataType::Utf8View, Some("".into())).contains("not JSON"));
        for format in TextFormat::ALL {
            let text = serde_json::to_string(&format).unwrap();
            assert_eq!(
                (serde_json::from_str::<TextFormat>(&text).unwrap(), text),
                (format, format!("\"{format}\""))
            );
        }
    }

    #[test]
    fn nulls_with_a_mask_are_filled() {
        let texts = StringViewArray::from(vec![Some("1"), None]);
        let field = Field::new("x", DataType::Utf8View, true);
        for (format, filler) in [(TextFormat::Plain, ""), (TextFormat::Json, "null")] {
            let codec = TextCodec::new(format, &field, NullOptions { fill: None, is_masked: true }).unwrap();
            let (rows, refused) = codec.gather(&[&texts], &Selection::of_one(vec![0, 1])).unwrap();
            assert_eq!((rows.as_string::<i64>().value(1), refused.len()), (filler, 0));
            assert!(!codec.delivered(&field).unwrap().is_nullable());
        }
    }
}
