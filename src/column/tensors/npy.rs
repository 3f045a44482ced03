//! numpy's `.npy` format, versions 1 to 3: a magic, the text of a Python dict, and the values.

use std::io::{ErrorKind as IoErrorKind, Read};

use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};

use super::dtype::{described, value_bytes};
use super::spec::Tensor;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header text that is read, in bytes. The header of an array of numbers has about a hundred
/// bytes.
const MAX_TEXT: usize = 64 << 10;

/// The most bytes of an array's values, if its shape is not known in advance.
const MAX_BYTES: usize = 1 << 30;

/// Reads the array in a `.npy` file into a slot, in row-major order and native byte order.
pub(super) fn read(file: &mut impl Read, tensor: &Tensor, slot: &mut [u8]) -> Result<()> {
    let header = header(file)?;
    if header.values != Values::Numbers(tensor.dtype.clone()) || header.shape != tensor.shape {
        let held = header.described();
        return Err(bad(format!("a numpy file of {held} where {} is wanted", tensor.described())));
    }
    let found = if header.is_transposed() {
        let mut columns = vec![0; slot.len()];
        let found = fill(file, &mut columns)?;
        transpose(&columns, &header.shape, header.values.width(), slot);
        found
    } else {
        fill(file, slot)?
    };
    header.check_end(file, found, slot.len())?;
    header.order(slot);
    Ok(())
}

/// Reads the values of an array of any shape, in row-major order and native byte order.
pub(in crate::column) fn read_all(file: &mut impl Read, header: &Header) -> Result<Vec<u8>> {
    let wanted = header.bytes().filter(|bytes| *bytes <= MAX_BYTES);
    let wanted = wanted.ok_or_else(|| {
        bad(format!("a numpy file of {}, which is more than {MAX_BYTES} bytes", header.described()))
    })?;
    let mut values = Vec::new();
    // The buffer grows as bytes are read, so a damaged header that declares too many values allocates no
    // memory for them.
    file.take(wanted as u64).read_to_end(&mut values).map_err(|error| bad(error.to_string()))?;
    header.check_end(file, values.len(), wanted)?;
    if header.is_transposed() {
        let columns = values.clone();
        transpose(&columns, &header.shape, header.values.width(), &mut values);
    }
    header.order(&mut values);
    Ok(values)
}

/// Reverses the byte order of each value.
pub(super) fn swap(values: &mut [u8], width: usize) {
    if width > 1 {
        values.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}

fn bad(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadRow, cause.into())
}

/// Reads until `out` is full or the file ends, and returns the number of bytes that were read.
fn fill(file: &mut impl Read, mut out: &mut [u8]) -> Result<usize> {
    let mut read = 0;
    while !out.is_empty() {
        match file.read(out) {
            Ok(0) => break,
            Ok(bytes) => {
                read += bytes;
                out = &mut out[bytes..];
            }
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(error) => return Err(bad(error.to_string())),
        }
    }
    Ok(read)
}

/// The type, byte order and shape of an array, from the header of its `.npy` file.
#[derive(Debug, PartialEq)]
pub(in crate::column) struct Header {
    pub(in crate::column) values: Values,
    /// Whether the values have another byte order than the machine.
    is_swapped: bool,
    fortran_order: bool,
    pub(in crate::column) shape: Vec<usize>,
}

/// The type of the values in an array.
#[derive(Debug, PartialEq)]
pub(in crate::column) enum Values {
    Numbers(DataType),
    /// Texts of at most this many characters of four bytes each, followed by zeros.
    Texts(usize),
    /// Byte strings of at most this length, followed by zeros.
    Bytes(usize),
}

impl Header {
    /// The type and the shape in the form for errors, such as "float32[3, 4]".
    pub(in crate::column) fn described(&self) -> String {
        match &self.values {
            Values::Numbers(dtype) => described(dtype, &self.shape),
            Values::Texts(_) => format!("str{:?}", self.shape),
            Values::Bytes(_) => format!("bytes{:?}", self.shape),
        }
    }

    /// The number of bytes of all values; `None` if it overflows.
    fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.values.width(), |bytes, side| bytes.checked_mul(*side))
    }

    /// Whether the values are in column-major order and must be reordered. An array with at most one side
    /// longer than 1 is the same in both orders.
    fn is_transposed(&self) -> bool {
        self.fortran_order && self.shape.iter().filter(|side| **side > 1).count() > 1
    }

    /// Refuses a file with more or fewer bytes of values than its header says.
    fn check_end(&self, file: &mut impl Read, found: usize, wanted: usize) -> Result<()> {
        let described = self.described();
        if found < wanted {
            return Err(bad(format!(
                "a numpy file with {found} bytes of values where {described} takes {wanted}"
            )));
        }
        match fill(file, &mut [0])? {
            0 => Ok(()),
            _ => Err(bad(format!("a numpy file with more than the {wanted} bytes of values of {described}"))),
        }
    }

    /// Converts values to the byte order of the machine.
    fn order(&self, values: &mut [u8]) {
        if self.is_swapped {
            swap(values, self.values.unit());
        }
    }
}

impl Values {
    /// The number of bytes of a value.
    pub(in crate::column) fn width(&self) -> usize {
        match self {
            Values::Numbers(dtype) => value_bytes(dtype),
            Values::Texts(characters) => characters.saturating_mul(size_of::<char>()),
            Values::Bytes(bytes) => *bytes,
        }
    }

    /// The number of bytes that are reversed together to change the byte order.
    fn unit(&self) -> usize {
        match self {
            Values::Numbers(dtype) => value_bytes(dtype),
            Values::Texts(_) => size_of::<char>(),
            Values::Bytes(_) => 1,
        }
    }
}

pub(in crate::column) fn header(file: &mut impl Read) -> Result<Header> {
    let mut start = [0; 8];
    let read = fill(file, &mut start)?;
    if !start[..read].starts_with(MAGIC) {
        return Err(bad("not a .npy file: it does not begin with \\x93NUMPY"));
    }
    let mut length = [0; 4];
    let bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(bad(format!("version {version} of .npy files is not read"))),
    };
    let cut = || bad("a .npy file that ends in its header");
    if read < start.len() || fill(file, &mut length[..bytes])? < bytes {
        return Err(cut());
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_TEXT {
        return Err(bad(format!("a .npy file with a header of {length} bytes")));
    }
    let mut text = vec![0; length];
    if fill(file, &mut text)? < length {
        return Err(cut());
    }
    let header = std::str::from_utf8(&text).ok().and_then(|text| Literal(text).header());
    header.ok_or_else(|| bad("a .npy file with a header that is not that of an array of numbers or text"))
}

/// Parses the type of values from its name in a header. Also says whether they have another byte order than
/// the machine.
fn values(descr: &str) -> Option<(Values, bool)> {
    let (order, kind) = descr.split_at_checked(1)?;
    let values = match (kind.split_at_checked(1)?, number(kind)) {
        (_, Some(dtype)) => Values::Numbers(dtype),
        (("U", characters), _) => Values::Texts(characters.parse().ok()?),
        (("S", bytes), _) => Values::Bytes(bytes.parse().ok()?),
        _ => return None,
    };
    match order {
        "<" => Some((values, cfg!(target_endian = "big"))),
        ">" => Some((values, cfg!(target_endian = "little"))),
        "|" | "=" => Some((values, false)),
        _ => None,
    }
}

/// The type of numbers or booleans by its name in a header, from which the byte order was removed.
fn number(kind: &str) -> Option<DataType> {
    Some(match kind {
        "b1" => DataType::Boolean,
        "i1" => DataType::Int8,
        "i2" => DataType::Int16,
        "i4" => DataType::Int32,
        "i8" => DataType::Int64,
        "u1" => DataType::UInt8,
        "u2" => DataType::UInt16,
        "u4" => DataType::UInt32,
        "u8" => DataType::UInt64,
        "f2" => DataType::Float16,
        "f4" => DataType::Float32,
        "f8" => DataType::Float64,
        _ => return None,
    })
}

/// Parses a Python literal; holds the text that is still to be parsed.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// Parses the dict in the header of a `.npy` file. The keys may come in any order.
    fn header(mut self) -> Option<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.take('{')?;
        while self.take('}').is_none() {
            let key = self.text()?;
            self.take(':')?;
            match key {
                "descr" => descr = Some(values(self.text()?)?),
                "fortran_order" => fortran_order = Some(self.flag()?),
                "shape" => shape = Some(self.sides()?),
                _ => return None,
            }
            if self.take(',').is_none() {
                self.take('}')?;
                break;
            }
        }
        let (values, is_swapped) = descr?;
        Some(Header { values, is_swapped, fortran_order: fortran_order?, shape: shape? })
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(wanted)?;
        Some(())
    }

    fn text(&mut self) -> Option<&'a str> {
        let quote = if self.take('\'').is_some() { '\'' } else { self.take('"').map(|()| '"')? };
        let (text, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        Some(text)
    }

    fn flag(&mut self) -> Option<bool> {
        let rest = self.0.trim_start();
        let (flag, rest) = match rest.strip_prefix("True") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix("False")?),
        };
        self.0 = rest;
        Some(flag)
    }

    fn sides(&mut self) -> Option<Vec<usize>> {
        let mut sides = Vec::new();
        self.take('(')?;
        while self.take(')').is_none() {
            let rest = self.0.trim_start();
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            sides.push(rest[..digits].parse().ok()?);
            // Python 2 wrote an `L` after long integers.
            self.0 = rest[digits..].strip_prefix('L').unwrap_or(&rest[digits..]);
            if self.take(',').is_none() {
                self.take(')')?;
                break;
            }
        }
        Some(sides)
    }
}

/// Writes values that are in column-major order to `rows` in row-major order.
fn transpose(columns: &[u8], shape: &[usize], width: usize, rows: &mut [u8]) {
    if width == 0 {
        return;
    }
    let strides: Vec<usize> = shape
        .iter()
        .scan(width, |stride, side| {
            let this = *stride;
            *stride *= side;
            Some(this)
        })
        .collect();
    let mut index = vec![0; shape.len()];
    let mut from = 0;
    for value in rows.chunks_exact_mut(width) {
        value.copy_from_slice(&columns[from..from + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this header and these values.
    pub(super) fn file(version: u8, text: &str, values: &[u8]) -> Vec<u8> {
        let mut file = [MAGIC, &[version, 0]].concat();
        let length = text.len() as u32;
        file.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
        [file, text.as_bytes().to_vec(), values.to_vec()].concat()
    }

    fn decoded(file: &[u8], tensor: &Tensor) -> std::result::Result<Vec<u8>, String> {
        let mut slot = vec![0xAA; tensor.shape.iter().product::<usize>() * tensor.width()];
        read(&mut &file[..], tensor, &mut slot).map_err(|error| error.to_string())?;
        Ok(slot)
    }

    fn bytes(values: impl IntoIterator<Item = u16>) -> Vec<u8> {
        values.into_iter().flat_map(u16::to_ne_bytes).collect()
    }

    #[test]
    fn files_are_read_whichever_way_they_are_written() {
        let tensor = Tensor::new(DataType::UInt16, [2, 3]);
        let expected = bytes(0..6);
        let little: Vec<u8> = (0..6u16).flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = (0..6u16).flat_map(u16::to_be_bytes).collect();
        let columns: Vec<u8> = [0, 3, 1, 4, 2, 5u16].into_iter().flat_map(u16::to_be_bytes).collect();
        let plain = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }     \n";
        for (version, text, values) in [
            (1, plain, &little),
            (2, plain, &little),
            (3, plain, &little),
            (1, "{'descr': '>u2', 'fortran_order': False, 'shape': (2, 3)}\n", &big),
            (1, "{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\">u2\"}", &columns),
        ] {
            assert_eq!(decoded(&file(version, text, values), &tensor), Ok(expected.clone()), "{text}");
        }
    }

    #[test]
    fn any_number_of_sides_is_transposed() {
        let shape = [2, 3, 1, 4];
        let place = |at: usize| {
            let (i, j, k) = (at / 12, at / 4 % 3, at % 4);
            i + 2 * j + 6 * k
        };
        let columns: Vec<u8> =
            (0..24).map(|at| (0..24).find(|&row| place(row) == at).unwrap() as u8).collect();
        let text = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 1, 4)}";
        let tensor = Tensor::new(DataType::UInt8, shape);
        assert_eq!(decoded(&file(1, text, &columns), &tensor), Ok((0..24).collect()));
    }

    #[test]
    fn a_file_of_something_else_says_what_it_holds() {
        let tensor = Tensor::new(DataType::UInt16, [2, 3]);
        let values = [0; 13];
        let text = |descr: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
        };
        let good = text("'<u2'", "(2, 3)");
        for (file, said) in [
            (file(1, &text("'<i2'", "(2, 3)"), &values), "int16[2, 3] where uint16[2, 3]"),
            (file(1, &text("'<u2'", "(3, 2)"), &values), "uint16[3, 2] where uint16[2, 3]"),
            (file(1, &text("'<u2'", "(6,)"), &values), "uint16[6] where"),
            (file(1, &text("'<u2'", "()"), &values), "uint16[] where"),
            (file(1, &text("'<c8'", "(2, 3)"), &values), "array of numbers or text"),
            (file(1, &text("[('a', '<u2')]", "(2, 3)"), &values), "array of numbers or text"),
            (file(1, &text("'<u2'", "(2, 99999999999999999999999)"), &values), "array of numbers or text"),
            (file(1, "{'descr': '<u2', 'shape': (2, 3)}", &values), "array of numbers or text"),
            (file(1, good.trim_end_matches(", }\n"), &values), "array of numbers or text"),
            (file(1, &good.replace("False, '", "False '"), &values), "array of numbers or text"),
            (file(1, &good.replace("shape':", "shape'"), &values), "array of numbers or text"),
            (file(1, &good, &values[..11]), "11 bytes of values where uint16[2, 3] takes 12"),
            (file(1, &good, &values), "more than the 12 bytes"),
            (file(4, &good, &values), "version 4"),
            (file(2, &" ".repeat(MAX_TEXT + 1), &values), "header of 65537 bytes"),
            (file(1, &good, &[])[..40].to_vec(), "ends in its header"),
            (b"\x93NUM".to_vec(), "not a .npy file"),
            (Vec::new(), "not a .npy file"),
        ] {
            let error = decoded(&file, &tensor).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    /// The test reads each prefix, and the file with any byte changed: it gets an array or an error, but
    /// never a panic.
    #[test]
    fn a_damaged_file_is_refused() {
        let tensor = Tensor::new(DataType::UInt16, [2, 3]);
        let file = file(1, "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3), }\n", &[7; 12]);
        for end in 0..file.len() {
            assert!(decoded(&file[..end], &tensor).is_err());
        }
        for at in 0..file.len() {
            for byte in [0, b'(', b'\'', 0xC3, 0xFF] {
                let mut file = file.clone();
                file[at] = byte;
                let _ = decoded(&file, &tensor);
            }
        }
    }
}
