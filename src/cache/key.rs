//! The key of an entry, which contains everything that decides its rows and nothing else.

use std::fmt;

use forebay_arrow::datatypes::Schema;
use xxhash_rust::xxh3::xxh3_128;

/// Identifies the rows of one row group, with the columns and types in which they are delivered.
///
/// Two keys are equal only if the file, its size, its version, the row group and the columns are. A file that
/// was rewritten has another key, and so have columns that are delivered as other types; the rows under the
/// old key are not used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    text: String,
    name: Name,
}

impl Key {
    /// Makes the key of a row group.
    ///
    /// `file` identifies the file, in the same way in every process and every run; it is written into the
    /// entry, so it must hold no credentials. `bytes` is the size of the file, `version` distinguishes one
    /// version of it from the next, `row_group` is the ordinal in the file, and `rows` describes the
    /// selection of its rows, in the caller's words. `columns` are the delivered columns in their order:
    /// names, types and nullability become part of the key, the schema's own metadata does not.
    pub fn new(file: &str, bytes: u64, version: &str, row_group: usize, rows: &str, columns: &Schema) -> Key {
        use fmt::Write;
        // The Debug format quotes and escapes, so a name with a line break cannot imitate the next line.
        let mut text = format!(
            "file {file:?}\nbytes {bytes}\nversion {version:?}\nrow group {row_group}\nrows {rows:?}\ncolumns\n"
        );
        for field in columns.fields() {
            let nullable = if field.is_nullable() { "" } else { " not null" };
            let _ = writeln!(text, "{:?} {}{nullable}", field.name(), field.data_type());
        }
        let name = Name::from_key(text.as_bytes());
        Key { text, name }
    }

    /// The key as text, with one line for each part.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn name(&self) -> Name {
        self.name
    }
}

/// The name of an entry's file: the xxh3-128 of its key. Names of users and data sets do not get into paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Name(u128);

const HEX_DIGITS: usize = 32;

impl Name {
    pub(super) fn from_key(key: &[u8]) -> Name {
        Name(xxh3_128(key))
    }

    /// The number of the subfolder, from 0 to 255.
    pub(super) fn folder(self) -> u8 {
        (self.0 >> 120) as u8
    }

    pub(super) fn parse(hex: &str) -> Option<Name> {
        let plain = hex.len() == HEX_DIGITS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if plain { u128::from_str_radix(hex, 16).ok().map(Name) } else { None }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0HEX_DIGITS$x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::datatypes::{DataType, Field};

    use super::*;

    fn columns(fields: &[(&str, DataType, bool)]) -> Schema {
        let field = |(name, data_type, nullable): &(&str, DataType, bool)| {
            Field::new(*name, data_type.clone(), *nullable)
        };
        Schema::new(fields.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn whatever_decides_the_rows_makes_another_key() {
        let plain = columns(&[("a", DataType::Int32, true), ("b", DataType::BinaryView, true)]);
        let key = |file, bytes, version, group, schema: &Schema| {
            Key::new(file, bytes, version, group, "all", schema)
        };
        let same = key("f", 1, "v", 0, &plain);
        assert_eq!(same, key("f", 1, "v", 0, &plain));
        let others = [
            key("g", 1, "v", 0, &plain),
            key("f", 2, "v", 0, &plain),
            key("f", 1, "w", 0, &plain),
            key("f", 1, "v", 1, &plain),
            key("f", 1, "v", 0, &columns(&[("a", DataType::Int32, true)])),
            key("f", 1, "v", 0, &columns(&[("b", DataType::BinaryView, true), ("a", DataType::Int32, true)])),
            key("f", 1, "v", 0, &columns(&[("a", DataType::Int64, true), ("b", DataType::BinaryView, true)])),
            key(
                "f",
                1,
                "v",
                0,
                &columns(&[("a", DataType::Int32, false), ("b", DataType::BinaryView, true)]),
            ),
            key("f\"\nbytes 1", 1, "v", 0, &plain),
            Key::new("f", 1, "v", 0, "some", &plain),
        ];
        let mut names: Vec<Name> = others.iter().map(Key::name).collect();
        names.push(same.name());
        names.sort();
        names.dedup();
        assert_eq!(names.len(), others.len() + 1);
    }

    #[test]
    fn a_name_is_read_back_and_nothing_else_is_a_name() {
        let name = Name::from_key(b"key");
        assert_eq!(Name::parse(&name.to_string()), Some(name));
        for other in ["", "..", "+0000000000000000000000000000000", "ABCDEF00000000000000000000000000", "00"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
