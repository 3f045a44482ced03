//! Checks a footer before the Parquet crate parses it. Each field must be written with the type that the
//! format declares. The schema must be a tree of exactly the elements in its list. Column chunks must agree
//! with the schema about their columns, and no column may be encrypted.
//!
//! Without the check, a damaged footer could exhaust memory: the Parquet crate reserves memory for as many
//! children as an element claims to have, and recurses as deeply as elements are nested.

use forebay_base::{Error, ErrorKind, Result};

use crate::catalog::thrift::declared::{
    COLUMN_CHUNK, COLUMN_META_DATA, FILE_META_DATA, ROW_GROUP, SCHEMA_ELEMENT, SIZE_STATISTICS,
};
use crate::catalog::thrift::write::field_header;
use crate::catalog::thrift::{BINARY, BOOL_FALSE, BOOL_TRUE, Compact, Edits, I32, I64, LIST, STRUCT};

/// How deeply columns may be nested. Deeper ones are refused before the Parquet crate recurses into them.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The hint for columns that are nested too deeply. Its numbers follow from the limit: a list takes two
/// levels, and the whole schema one.
const NESTING: &str = "the file is sound; lists are read up to 31 deep and structures up to 62: write the column flatter, or as \
                       JSON or binary";

/// The limit in bytes for the paths of all columns together. The Parquet crate keeps for each column the
/// names of all structures around it. So one long name around many columns would take far more memory than
/// the footer has bytes.
const MAX_PATH_BYTES: u64 = 64 << 20;

/// The number of bytes that a name in a path takes in addition to its text.
const NAME_OVERHEAD: u64 = size_of::<String>() as u64;

/// The encodings that the Parquet crate knows, as their numbers in the format.
const ENCODINGS: [i64; 10] = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// Checks a footer, and returns the changes that a copy needs to be accepted by the Parquet crate: files of
/// other writers have oddities that all other readers accept. Fails with `Corrupt`, `TooLarge` or
/// `Unsupported`.
///
/// - A field that is not written with the declared type is removed, as if the file did not have it.
/// - An encoding that the Parquet crate does not know, in the list of a column chunk, becomes the plain one.
///   The pages need not use it, and say themselves which one they use.
/// - A list of encodings with elements of 64 bits gets elements of 32 bits, which are written alike.
///   fastparquet 0.8 writes such lists.
/// - A column that is not said to be optional or repeated is required.
/// - A decimal without a scale has the scale 0.
pub(super) fn check(bytes: &[u8]) -> Result<Edits> {
    const SCHEMA: i16 = 2;
    const ROW_GROUPS: i16 = 4;
    const ENCRYPTION: i16 = 8;
    let mut encrypted = false;
    let mut schema: Option<Tree> = None;
    let mut input = Compact::lenient(bytes);
    let read = input.structure(|input, id, kind| {
        encrypted |= id == ENCRYPTION;
        // All writers put the row groups after the schema, so the schema is known here.
        if let (ROW_GROUPS, Some(tree)) = (id, &mut schema) {
            return tree.row_groups(input, kind);
        }
        if id != SCHEMA {
            return input.field(FILE_META_DATA, id, kind);
        }
        // A second schema is refused: the Parquet crate would use the first one only.
        if schema.is_some() {
            return None;
        }
        let left = input.list_of_structures(kind)?;
        let tree = schema.insert(Tree { left, ..Tree::default() });
        (0..left).try_for_each(|_| tree.element(input))
    });
    match (read, schema.and_then(|tree| tree.trouble)) {
        (_, Some(trouble)) => Err(trouble),
        (None, None) => Err(Error::new(ErrorKind::Corrupt, "the footer is malformed")),
        (Some(()), None) if encrypted => Err(encrypted_error()),
        (Some(()), None) => Ok(std::mem::take(input.edits())),
    }
}

/// The value that a footer's metadata has for `key`, as bytes that need not be text. If several entries have
/// this key, the last one counts.
pub(super) fn key_value<'a>(bytes: &'a [u8], key: &str) -> Result<Option<&'a [u8]>> {
    const KEY_VALUES: i16 = 5;
    const KEY: i16 = 1;
    const VALUE: i16 = 2;
    let mut found = None;
    let read = Compact::new(bytes).structure(|input, id, kind| {
        if id != KEY_VALUES {
            return input.field(FILE_META_DATA, id, kind);
        }
        let pairs = input.list_of_structures(kind)?;
        (0..pairs).try_for_each(|_| {
            let (mut name, mut value) = (None, None);
            input.structure(|input, id, kind| {
                match (id, kind) {
                    (KEY, BINARY) => name = Some(input.bytes(kind)?),
                    (VALUE, BINARY) => value = Some(input.bytes(kind)?),
                    _ => input.skip(kind)?,
                }
                Some(())
            })?;
            if name == Some(key.as_bytes()) {
                found = value;
            }
            Some(())
        })
    });
    read.map(|()| found).ok_or_else(|| Error::new(ErrorKind::Corrupt, "the footer is malformed"))
}

/// The part of the schema that was read so far. The schema is a tree, in which each element is followed by
/// its children.
#[derive(Default)]
struct Tree {
    /// The number of elements that were not read yet.
    left: usize,
    /// How many of these elements are expected as children of elements that were read already.
    claimed: usize,
    /// The groups around the element that is read next, from the root down. A group is removed once all of
    /// its children were read.
    open: Vec<Level>,
    /// The number of bytes that the paths of all columns take, for the limit [`MAX_PATH_BYTES`].
    paths: u64,
    /// The leaf columns, in the order of the schema.
    leaves: Vec<Leaf>,
    /// The error, if the schema is refused or a column chunk contradicts it.
    trouble: Option<Error>,
}

struct Level {
    children: usize,
    path: u64,
    /// The highest repetition level and the highest definition level of elements at this depth.
    highest: [usize; 2],
}

/// The properties of a leaf column in the schema. Its column chunks must have the same properties.
struct Leaf {
    /// The column's physical type, as its number in the format.
    physical: i32,
    /// The highest repetition level and the highest definition level of the column.
    highest: [usize; 2],
}

/// The names of the physical types. The index is the type's number in the format.
const PHYSICAL: [&str; 8] =
    ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"];

impl Tree {
    /// Reads the next element of the schema. Returns `None` if it is malformed or does not fit in the tree.
    fn element(&mut self, input: &mut Compact<'_>) -> Option<()> {
        const TYPE: i16 = 1;
        const REPETITION: i16 = 3;
        const NAME: i16 = 4;
        const CHILDREN: i16 = 5;
        const CONVERTED: i16 = 6;
        const SCALE: i16 = 7;
        const REQUIRED: i32 = 0;
        const REPEATED: i32 = 2;
        const DECIMAL: i32 = 5;
        let (mut name, mut children) = (0, 0);
        let (mut physical, mut repetition) = (None, None);
        let (mut converted, mut scale) = (None, None);
        input.structure(|input, id, kind| {
            match (id, kind) {
                (TYPE, _) => physical = Some(input.i32(kind)?),
                (REPETITION, I32) => repetition = Some(input.i32(kind)?),
                (NAME, _) => name = input.binary(kind)?,
                (CHILDREN, _) => children = usize::try_from(input.i32(kind)?).ok()?,
                (CONVERTED, I32) => converted = Some(input.i32(kind)?),
                (SCALE, I32) => scale = Some(input.i32(kind)?),
                _ => input.field(SCHEMA_ELEMENT, id, kind)?,
            }
            Some(())
        })?;
        // The end of a structure is one byte.
        let end = input.position() - 1;
        let mut add = |id: i16| input.edits().replace(end..end, &[field_header(id, I32), vec![0]].concat());
        if repetition.is_none() && !self.open.is_empty() {
            add(REPETITION);
        }
        if converted == Some(DECIMAL) && scale.is_none() {
            add(SCALE);
        }
        let repetition = repetition.unwrap_or(REQUIRED);
        self.left -= 1;
        let mut path = name + NAME_OVERHEAD;
        let mut highest = [0; 2];
        // The root adds nothing to the levels, because its repetition has no meaning.
        if let Some(parent) = self.open.last_mut() {
            parent.children -= 1;
            self.claimed -= 1;
            path += parent.path;
            let [repetitions, definitions] = parent.highest;
            let deeper = [repetition == REPEATED, repetition != REQUIRED].map(usize::from);
            highest = [repetitions + deeper[0], definitions + deeper[1]];
        }
        if children > self.left - self.claimed {
            let cause = format!(
                "a column is said to have {children} children, where {} are left",
                self.left - self.claimed
            );
            return self.refuse(ErrorKind::Corrupt, cause);
        }
        if children > 0 {
            self.claimed += children;
            self.open.push(Level { children, path, highest });
            if self.open.len() > MAX_SCHEMA_DEPTH {
                let cause =
                    format!("a column nests more than {MAX_SCHEMA_DEPTH} levels deep, which is not read");
                self.trouble = Some(Error::new(ErrorKind::Unsupported, cause).hint(NESTING));
                return None;
            }
            return Some(());
        }
        self.paths = self.paths.saturating_add(path);
        if self.paths > MAX_PATH_BYTES {
            let cause = format!("the paths of the columns take more than {MAX_PATH_BYTES} bytes");
            return self.refuse(ErrorKind::TooLarge, cause);
        }
        self.leaves.extend(physical.map(|physical| Leaf { physical, highest }));
        while self.open.pop_if(|level| level.children == 0).is_some() {}
        Some(())
    }

    /// Reads the list of row groups. Returns `None` if one of them is refused.
    fn row_groups(&mut self, input: &mut Compact<'_>, kind: u8) -> Option<()> {
        const COLUMN_CHUNKS: i16 = 1;
        let groups = input.list_of_structures(kind)?;
        (0..groups).try_for_each(|group| {
            input.structure(|input, id, kind| {
                if id != COLUMN_CHUNKS {
                    return input.field(ROW_GROUP, id, kind);
                }
                let chunks = input.list_of_structures(kind)?;
                (0..chunks).try_for_each(|chunk| self.column_chunk(input, group, chunk))
            })
        })
    }

    /// Reads the entry of one column chunk. Returns `None` if it is refused.
    fn column_chunk(&mut self, input: &mut Compact<'_>, group: usize, chunk: usize) -> Option<()> {
        const META_DATA: i16 = 3;
        const TYPE: i16 = 1;
        const LISTED: i16 = 2;
        /// The plain encoding, as it is written.
        const PLAIN: u8 = 0;
        /// The bits of a list's first byte that have the type of its elements.
        const ELEMENT: u8 = 0x0f;
        const SIZES: i16 = 16;
        const REPETITIONS: i16 = 2;
        const DEFINITIONS: i16 = 3;
        let (mut physical, mut levels) = (None, [0; 2]);
        input.structure(|input, id, kind| {
            if (id, kind) != (META_DATA, STRUCT) {
                return input.field(COLUMN_CHUNK, id, kind);
            }
            input.structure(|input, id, kind| match (id, kind) {
                (TYPE, _) => input.i32(kind).map(|kind| physical = Some(kind)),
                (LISTED, _) => {
                    let list = input.position();
                    let header = input.next();
                    let mut is_wide = false;
                    let listed = input.list_of(kind, |input, kind| {
                        is_wide = kind == I64;
                        let start = input.position();
                        let encoding = match kind {
                            I64 => input.i64(kind)?,
                            I32 => input.i32(kind)?.into(),
                            // A list of booleans is refused, because this code and the Parquet crate would
                            // skip it differently.
                            BOOL_TRUE | BOOL_FALSE => return None,
                            // A list of another type is only skipped here: the Parquet crate refuses it, and
                            // says why.
                            _ => return input.skip(kind),
                        };
                        if !ENCODINGS.contains(&encoding) {
                            let end = input.position();
                            input.edits().replace(start..end, &[PLAIN]);
                        }
                        Some(())
                    });
                    if let (true, Some(header)) = (is_wide, header) {
                        input.edits().replace(list..list + 1, &[header & !ELEMENT | I32]);
                    }
                    listed.map(drop)
                }
                // This structure has histograms, with a count for each repetition level and each definition
                // level.
                (SIZES, STRUCT) => input.structure(|input, id, kind| match (id, kind) {
                    (REPETITIONS | DEFINITIONS, LIST) => {
                        let counts = input.list_of(kind, |input, kind| input.i64(kind).map(drop))?;
                        levels[usize::from(id == DEFINITIONS)] = counts.len();
                        Some(())
                    }
                    _ => input.field(SIZE_STATISTICS, id, kind),
                }),
                _ => input.field(COLUMN_META_DATA, id, kind),
            })
        })?;
        // Chunks beyond the number of leaf columns are not compared. Their row group is refused later,
        // because it has too many chunks.
        let Some(leaf) = self.leaves.get(chunk) else { return Some(()) };
        let place = || format!("column chunk {chunk} of row group {group}");
        if let Some(physical) = physical.filter(|physical| *physical != leaf.physical) {
            let [found, wanted] = [physical, leaf.physical].map(name);
            return self.refuse(
                ErrorKind::Corrupt,
                format!("{} is {found}, its column in the schema {wanted}", place()),
            );
        }
        match levels.iter().zip(leaf.highest).all(|(counts, highest)| [0, highest + 1].contains(counts)) {
            true => Some(()),
            false => self.refuse(
                ErrorKind::Corrupt,
                format!("{} has other levels than its column in the schema", place()),
            ),
        }
    }

    fn refuse(&mut self, kind: ErrorKind, cause: String) -> Option<()> {
        self.trouble = Some(Error::new(kind, cause));
        None
    }
}

/// The name of a physical type, for messages.
fn name(physical: i32) -> &'static str {
    let name = usize::try_from(physical).ok().and_then(|number| PHYSICAL.get(number));
    name.copied().unwrap_or("of no known type")
}

pub(super) fn encrypted_error() -> Error {
    Error::new(ErrorKind::Unsupported, "the file is encrypted, which is not read")
        .hint("write it without encryption, or name the files without it")
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::ParquetMetaDataReader;

    use super::*;
    use crate::catalog::thrift::write::{binary, int, list_of_structures};

    /// An element of a schema with this name and number of children. `kind` is the type with which the number
    /// is written.
    fn element(name: &str, children: Option<i64>, kind: u8) -> Vec<u8> {
        let mut bytes = vec![0x48];
        bytes.extend(binary(name.as_bytes()));
        if let Some(children) = children {
            bytes.push(0x10 | kind);
            bytes.extend(int(children));
        }
        bytes.push(0);
        bytes
    }

    fn group(children: i64) -> Vec<u8> {
        element("g", Some(children), I32)
    }

    fn leaf() -> Vec<u8> {
        element("x", None, I32)
    }

    /// A column "x" of INT32 with these numbers, each below 64 and after the id of its field.
    fn leaf_with(numbers: &[(i16, u8)]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x38, 1, b'x'];
        for (id, number) in numbers {
            bytes.extend(field_header(*id, I32));
            bytes.push(*number);
        }
        bytes.push(0);
        bytes
    }

    fn footer(elements: &[Vec<u8>]) -> Vec<u8> {
        [&[0x29][..], &list_of_structures(elements.len()), &elements.concat(), &[0]].concat()
    }

    fn refusal(elements: &[Vec<u8>]) -> String {
        check(&footer(elements)).unwrap_err().to_string()
    }

    #[test]
    fn a_tree_of_columns_is_read() {
        check(&footer(&[group(2), leaf(), group(1), leaf()])).unwrap();
        check(&footer(&[group(0)])).unwrap();
        let deep = [vec![group(1); MAX_SCHEMA_DEPTH], vec![leaf()]].concat();
        check(&footer(&deep)).unwrap();
    }

    #[test]
    fn a_schema_without_end_is_refused_before_it_is_parsed() {
        let deep = [vec![group(1); MAX_SCHEMA_DEPTH + 1], vec![leaf()]].concat();
        let refused = refusal(&deep);
        assert!(
            refused.starts_with("a column nests more than 64 levels deep, which is not read"),
            "{refused}"
        );
        assert!(refused.contains("lists are read up to 31 deep"), "{refused}");
        assert_eq!(check(&footer(&deep)).unwrap_err().kind(), ErrorKind::Unsupported);
        // If these numbers of children were truncated to 32 bits, both would be 1.
        for one in [1 - (1 << 32), 1 + (1 << 32)] {
            let deep = [vec![group(one); 2000], vec![leaf()]].concat();
            assert_eq!(refusal(&deep), "the footer is malformed");
        }
    }

    #[test]
    fn children_that_are_not_there_are_refused_before_they_are_parsed() {
        for elements in [
            vec![group(i64::from(i32::MAX)), leaf()],
            vec![group(3), leaf(), leaf()],
            // Each element claims all remaining elements as its children, so the Parquet crate would reserve
            // memory for them each time.
            vec![group(3), group(2), group(2), leaf()],
        ] {
            assert!(refusal(&elements).contains("are left"), "{}", refusal(&elements));
        }
        assert_eq!(refusal(&[group(-1), leaf()]), "the footer is malformed");
    }

    #[test]
    fn children_that_are_not_written_as_declared_are_refused() {
        for kind in (1..16).filter(|kind| *kind != I32) {
            let elements = [element("g", Some(1), kind), leaf()];
            assert_eq!(refusal(&elements), "the footer is malformed", "{kind}");
        }
    }

    #[test]
    fn one_long_name_around_many_columns_is_refused() {
        let name = "g".repeat(1 << 20);
        let elements = [vec![group(1), element(&name, Some(100), I32)], vec![leaf(); 100]].concat();
        assert!(refusal(&elements).contains("paths of the columns"));
    }

    #[test]
    fn a_second_schema_is_refused() {
        let first = footer(&[group(1), leaf()]);
        let second = [&first[..first.len() - 1], &[0x09, 0x04, 0x1c], &group(0), &[0]].concat();
        assert_eq!(check(&second).unwrap_err().to_string(), "the footer is malformed");
    }

    /// A footer with one optional column "x" of INT32. Its column chunk has this physical type, and a
    /// histogram with `counts` definition levels.
    fn with_chunk(physical: u8, counts: u8) -> Vec<u8> {
        let leaf = [0x15, 2, 0x25, 2, 0x18, 1, b'x', 0];
        let schema = [&[0x29, 0x2c][..], &group(1), &leaf].concat();
        // The histogram of definition levels, which the column chunk's metadata has after the physical type.
        let counted = [&[0x39, counts << 4 | 6][..], &vec![2; counts.into()], &[0]].concat();
        let metadata = [&[0x15, 2 * physical, 0xfc][..], &counted, &[0]].concat();
        let chunk = [&[0x3c][..], &metadata, &[0]].concat();
        let group = [&[0x19, 0x1c][..], &chunk, &[0]].concat();
        [&schema[..], &[0x29, 0x1c], &group, &[0]].concat()
    }

    #[test]
    fn a_column_chunk_says_what_the_schema_says() {
        check(&with_chunk(1, 2)).unwrap();
        check(&with_chunk(1, 0)).unwrap();
        let refusal = |physical, counts| check(&with_chunk(physical, counts)).unwrap_err().to_string();
        assert_eq!(refusal(4, 2), "column chunk 0 of row group 0 is FLOAT, its column in the schema INT32");
        assert_eq!(
            refusal(9, 2),
            "column chunk 0 of row group 0 is of no known type, its column in the schema INT32"
        );
        for counts in [1, 3] {
            assert_eq!(
                refusal(1, counts),
                "column chunk 0 of row group 0 has other levels than its column in the schema"
            );
        }
    }

    #[test]
    fn encodings_that_are_not_known_or_too_wide_are_replaced() {
        // The metadata of the only column chunk. It lists three encodings: plain, an unknown one that takes
        // two bytes, and run lengths.
        let metadata = [0x15, 2, 0x19, 0x35, 0, 0xc6, 1, 6, 0];
        let schema = [&[0x29, 0x2c][..], &group(1), &[0x15, 2, 0x25, 2, 0x18, 1, b'x', 0]].concat();
        let chunk = [&[0x3c][..], &metadata, &[0]].concat();
        let bytes = [&schema[..], &[0x29, 0x1c, 0x19, 0x1c], &chunk, &[0, 0]].concat();
        let replaced = check(&bytes).unwrap().applied(&bytes);
        let at = bytes.windows(2).position(|pair| pair == [0xc6, 1]).unwrap();
        assert_eq!(replaced, [&bytes[..at], &[0], &bytes[at + 2..]].concat());
        assert!(check(&replaced).unwrap().is_empty());

        let wide: Vec<u8> = bytes.iter().map(|&byte| if byte == 0x35 { 0x36 } else { byte }).collect();
        assert_eq!(check(&wide).unwrap().applied(&wide), replaced);
    }

    /// fastparquet lets its users store numbers as values of metadata, and writes an empty list with another
    /// type of elements. Dremio 3 writes a list of structures in place of a number.
    #[test]
    fn fields_that_are_not_written_as_declared_are_removed() {
        let schema = footer(&[group(1), leaf_with(&[(3, 2)])]);
        let schema = &schema[..schema.len() - 1];
        // Two key-value pairs, of which the first has a number for a value; then a list of structures for the
        // writer's name; then the list of column orders.
        let pairs = [0x39, 0x2c, 0x18, 1, b'k', 0x16, 2, 0, 0x18, 1, b'k', 0x18, 1, b'v', 0];
        let odd = [&pairs[..], &[0x19, 0x1c, 0x15, 2, 0x2c, 0x15, 4, 0, 0]];
        let odd = [schema, &odd.concat(), &[0x19, 0x05, 0]].concat();
        let edited = check(&odd).unwrap().applied(&odd);
        let plain = [0x39, 0x2c, 0x18, 1, b'k', 0, 0x18, 1, b'k', 0x18, 1, b'v', 0];
        assert_eq!(edited, [schema, &plain, &field_header(7, LIST), &[0x0c, 0]].concat());
        assert!(check(&edited).unwrap().is_empty());
    }

    #[test]
    fn what_a_column_does_not_say_about_itself_is_added() {
        const REPETITION: (i16, u8) = (3, 2);
        const DECIMAL: (i16, u8) = (6, 10);
        const PRECISION: (i16, u8) = (8, 8);
        let with = |numbers: &[(i16, u8)]| footer(&[group(1), leaf_with(numbers)]);
        for (said, added) in [
            (&[][..], &[(3, 0)][..]),
            (&[REPETITION], &[]),
            (&[REPETITION, DECIMAL, PRECISION], &[(7, 0)]),
            (&[REPETITION, DECIMAL, PRECISION, (7, 4)], &[]),
            (&[DECIMAL, PRECISION], &[(3, 0), (7, 0)]),
        ] {
            let bytes = with(said);
            let edited = check(&bytes).unwrap().applied(&bytes);
            assert_eq!(edited, with(&[said, added].concat()), "{said:?}");
            ParquetMetaDataReader::decode_schema(&edited).unwrap();
        }
        // A scale of 64 bits is removed, and then added.
        let [_, _, ref element @ ..] = leaf_with(&[REPETITION, DECIMAL, PRECISION])[..] else { panic!() };
        let wide = [&[0x15, 2], &element[..element.len() - 1], &field_header(7, I64), &[4, 0]].concat();
        let bytes = footer(&[group(1), wide]);
        let edited = check(&bytes).unwrap().applied(&bytes);
        assert_eq!(edited, with(&[REPETITION, DECIMAL, PRECISION, (7, 0)]));
    }
}
