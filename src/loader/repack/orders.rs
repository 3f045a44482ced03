//! Corrects the column orders in the footer of a written file. A column order says how the values of a column
//! are compared, so readers need it to use the column's minima and maxima. The new file gets the orders of
//! the file from which it was copied.
//!
//! The Parquet crate gives its own orders to all files that it writes, such as that of IEEE 754 for floats.
//! But the copied statistics were made with another order, and a reader that does not know the new order
//! ignores them. So the orders, which are the last field of the footer, are corrected after the file is
//! written. This changes one byte for each column.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parquet::basic::ColumnOrder;

/// A file ends with this number of bytes after the footer: the footer's length and the magic.
const ENDING_BYTES: u64 = 8;
/// The number of bytes of one column order in Thrift's compact encoding: the header of a field that holds an
/// empty structure, the end of that structure, and the end of the union.
const ENTRY_BYTES: usize = 3;
/// In an entry, the Thrift field header of the order that the column's type defines.
const TYPE_DEFINED: u8 = 0x1C;
/// In an entry, the Thrift field header of the IEEE 754 order, which was added to Parquet later.
const IEEE_754: u8 = 0x2C;
const INT96: u8 = 0x3C;
/// In an entry, a Thrift field header that no reader knows, so that readers treat the order as undefined.
const UNDEFINED: u8 = 0xFC;

/// Writes `orders` into the footer of a file, one for each column. A column whose entry is `None` keeps its
/// order.
pub(super) fn put_right(file: &File, orders: &[Option<ColumnOrder>]) -> io::Result<()> {
    // One more byte, the end of the footer's structure, follows the entries.
    let length = orders.len() * ENTRY_BYTES + 1;
    let at = file.metadata()?.len().checked_sub(ENDING_BYTES + length as u64);
    let at = at.ok_or_else(unknown)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at)?;
    let (entries, [0]) = bytes.as_chunks_mut::<ENTRY_BYTES>() else { return Err(unknown()) };
    for (entry, order) in entries.iter_mut().zip(orders) {
        let [TYPE_DEFINED | IEEE_754 | INT96, 0, 0] = *entry else { return Err(unknown()) };
        entry[0] = match order {
            None => entry[0],
            Some(ColumnOrder::TYPE_DEFINED_ORDER(_)) => TYPE_DEFINED,
            Some(ColumnOrder::IEEE_754_TOTAL_ORDER) => IEEE_754,
            Some(ColumnOrder::INT96_TIMESTAMP_ORDER) => INT96,
            Some(_) => UNDEFINED,
        };
    }
    file.write_all_at(&bytes, at)
}

fn unknown() -> io::Error {
    io::Error::other("the footer that was written does not end in the orders of its columns")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::SortOrder;
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn a_file_gets_the_orders_that_are_given() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file.parquet");
        for columns in [1usize, 14, 15, 300] {
            let fields: String = (0..columns).map(|at| format!("required float c{at};")).collect();
            let schema = Arc::new(parse_message_type(&format!("message m {{ {fields} }}")).unwrap());
            let file =
                File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
            let properties = Arc::new(WriterProperties::builder().build());
            let writer = SerializedFileWriter::new(file, schema, properties).unwrap();
            let file = writer.into_inner().unwrap();
            let given = |at: usize| match at % 3 {
                0 => Some(ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::SIGNED)),
                1 => None,
                _ => Some(ColumnOrder::UNDEFINED),
            };
            put_right(&file, &(0..columns).map(given).collect::<Vec<_>>()).unwrap();
            let read = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            let orders = read.metadata().file_metadata().column_orders().unwrap().clone();
            let expected = |at: usize| match at % 3 {
                0 => ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::SIGNED),
                1 => ColumnOrder::IEEE_754_TOTAL_ORDER,
                _ => ColumnOrder::UNKNOWN,
            };
            assert_eq!(orders, (0..columns).map(expected).collect::<Vec<_>>());
            assert!(put_right(&file, &vec![None; columns + 1]).is_err(), "a column more");
        }
    }
}
