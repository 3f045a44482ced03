//! Writes the values of columns side by side, as the rows of a matrix.

use forebay_arrow::array::{Array, ArrayRef, AsArray, downcast_primitive_array};
use forebay_arrow::buffer::Buffer;
use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};

/// The number of columns that are written to the matrix together: 16 values of four bytes, one from each
/// column, fill a line of the processor's cache.
pub(crate) const STACKED_TOGETHER: usize = 16;

/// The number of rows for which [`write_blocks`] writes all columns before it goes on to the next rows.
/// Neighbouring cache lines of a row are then written while they are in the processor's cache.
const ROWS_PER_TURN: usize = 1 << 10;

/// The number of bytes of a register.
const REGISTER: usize = 16;

/// Writes whole columns side by side into a matrix, whose rows get one value of each column. Each value has
/// `width` bytes.
pub(super) fn write_blocks(width: usize, columns: &[ArrayRef], matrix: &mut [u8]) -> Result<()> {
    let row = width * columns.len();
    for (turn, rows) in matrix.chunks_mut(row * ROWS_PER_TURN).enumerate() {
        let (from, count) = (turn * ROWS_PER_TURN, rows.len() / row);
        for (number, together) in columns.chunks(STACKED_TOGETHER).enumerate() {
            let together: Vec<ArrayRef> = together.iter().map(|column| column.slice(from, count)).collect();
            write_columns(width, &together, number * STACKED_TOGETHER, row, rows)?;
        }
    }
    Ok(())
}

/// Writes columns side by side into a matrix whose rows have `row` bytes. Each value has `width` bytes. The
/// first of these columns becomes column `first` of the matrix.
pub(super) fn write_columns(
    width: usize,
    columns: &[ArrayRef],
    first: usize,
    row: usize,
    matrix: &mut [u8],
) -> Result<()> {
    let columns = columns.iter().map(|column| stacked_bytes(column.as_ref())).collect::<Result<Vec<_>>>()?;
    let columns: Vec<&[u8]> = columns.iter().map(Buffer::as_slice).collect();
    let at = first * width;
    match width {
        1 => write::<1>(&columns, at, row, matrix),
        2 => write::<2>(&columns, at, row, matrix),
        4 => write::<4>(&columns, at, row, matrix),
        _ => write::<8>(&columns, at, row, matrix),
    }
    Ok(())
}

/// Writes columns whose values have `WIDTH` bytes, from byte `at` of each row, into rows of `row` bytes.
fn write<const WIDTH: usize>(columns: &[&[u8]], at: usize, row: usize, matrix: &mut [u8]) {
    let narrow = <&[&[u8]; STACKED_TOGETHER]>::try_from(columns).ok().filter(|_| WIDTH <= 2);
    let turned = narrow.map_or(0, |columns| write_registers::<WIDTH>(columns, at, row, matrix));
    let columns: Vec<&[[u8; WIDTH]]> = columns.iter().map(|column| &column.as_chunks().0[turned..]).collect();
    let rest = &mut matrix[turned * row..];
    match <&[&[[u8; WIDTH]]; STACKED_TOGETHER]>::try_from(&columns[..]) {
        Ok(columns) => write_values(columns, at, row, rest),
        Err(_) => write_values(&columns[..], at, row, rest),
    }
}

/// Writes value by value.
fn write_values<'a, const WIDTH: usize>(
    columns: &(impl AsRef<[&'a [[u8; WIDTH]]]> + ?Sized),
    at: usize,
    row: usize,
    rows: &mut [u8],
) {
    let columns = columns.as_ref();
    for (number, row) in rows.chunks_exact_mut(row).enumerate() {
        let written = row[at..at + columns.len() * WIDTH].as_chunks_mut().0;
        for (to, column) in written.iter_mut().zip(columns) {
            *to = column[number];
        }
    }
}

/// Writes rows in groups. In each group, the values of one column fill a register. Returns the number of rows
/// that were written: the last rows are left out if they do not fill a group.
///
/// Registers are interleaved in four rounds. At first the number of a register is the number of its column.
/// In each round, the highest bit of a register's number becomes the lowest bit of the places of its values.
/// In the end all four bits of the column's number are the lowest bits of a value's place among all values,
/// so that the values of one row are side by side.
fn write_registers<const WIDTH: usize>(
    columns: &[&[u8]; STACKED_TOGETHER],
    at: usize,
    row: usize,
    matrix: &mut [u8],
) -> usize {
    const ROUNDS: u32 = STACKED_TOGETHER.ilog2();
    let rows = REGISTER / WIDTH;
    let full = matrix.len() / row / rows * rows;
    for (turn, of_turn) in matrix[..full * row].chunks_exact_mut(rows * row).enumerate() {
        let mut registers = [[0; REGISTER]; STACKED_TOGETHER];
        for (register, column) in registers.iter_mut().zip(columns) {
            register.copy_from_slice(&column[turn * REGISTER..][..REGISTER]);
        }
        for _ in 0..ROUNDS {
            registers = interleaved::<WIDTH>(&registers);
        }
        let lines = registers.as_flattened().chunks_exact(STACKED_TOGETHER * WIDTH);
        for (row, line) in of_turn.chunks_exact_mut(row).zip(lines) {
            row[at..at + STACKED_TOGETHER * WIDTH].copy_from_slice(line);
        }
    }
    full
}

/// Interleaves the values of each register in the first half with those of its counterpart in the second.
#[inline(always)]
fn interleaved<const WIDTH: usize>(
    registers: &[[u8; REGISTER]; STACKED_TOGETHER],
) -> [[u8; REGISTER]; STACKED_TOGETHER] {
    let mut out = [[0; REGISTER]; STACKED_TOGETHER];
    for pair in 0..STACKED_TOGETHER / 2 {
        let (one, other) = (&registers[pair], &registers[pair + STACKED_TOGETHER / 2]);
        for byte in 0..REGISTER / 2 {
            let to = byte / WIDTH * 2 * WIDTH + byte % WIDTH;
            (out[2 * pair][to], out[2 * pair][to + WIDTH]) = (one[byte], other[byte]);
            let high = REGISTER / 2 + byte;
            (out[2 * pair + 1][to], out[2 * pair + 1][to + WIDTH]) = (one[high], other[high]);
        }
    }
    out
}

/// The bytes of a column's values, including arbitrary ones under nulls, with a byte for each boolean.
pub(crate) fn stacked_bytes(column: &dyn Array) -> Result<Buffer> {
    let values: &Buffer = downcast_primitive_array!(
        column => column.values().inner(),
        DataType::Boolean => {
            return Ok(column.as_boolean().values().iter().map(u8::from).collect());
        }
        other => return Err(Error::new(ErrorKind::Internal, format!("{other} in a stack of columns"))),
    );
    Ok(values.clone())
}
