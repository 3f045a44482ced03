//! Repairs footers that the Parquet crate refuses for reasons that do not matter here: metadata that is not
//! UTF-8, and a column's annotation (its logical type) that is unknown or does not fit the physical type.
//!
//! Metadata that is not UTF-8 is removed. A column without a fitting annotation is read as its physical type.
//! Its statistics are not used, because without the annotation the order of its values is unknown.

use std::ops::Range;

use parquet::file::metadata::ParquetMetaDataReader;

use crate::catalog::arrow_schema;
use crate::catalog::thrift::declared::{FILE_META_DATA, KEY_VALUE, SCHEMA_ELEMENT};
use crate::catalog::thrift::write::{binary, field_header, int, list_of_structures};
use crate::catalog::thrift::{BINARY, Compact, Edits, I32, LIST, STRUCT};

/// The numbers that Parquet's format gives to the fields of a footer.
const SCHEMA: i16 = 2;
const KEY_VALUES: i16 = 5;
const CREATED_BY: i16 = 6;
const COLUMN_ORDERS: i16 = 7;

/// An encoded column order that no reader knows, so that statistics are ignored: a union with the field 15,
/// which the format does not have.
const UNKNOWN_ORDER: [u8; 3] = [0xf << 4 | STRUCT, 0, 0];

/// A copy of the footer without the metadata and annotations that cannot be used; `None` if there are none.
/// The footer must have been [checked](super::structure).
pub(super) fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut found = FoundChanges::default();
    let mut input = Compact::new(bytes);
    let at = |input: &Compact<'_>| bytes.len() - input.remaining();
    input.structure(|input, id, kind| {
        match id {
            SCHEMA => {
                for _ in 0..input.list_of_structures(kind)? {
                    let start = at(input);
                    let element = Element::read(input, bytes)?;
                    found.element(start..at(input), element);
                }
            }
            KEY_VALUES => {
                let start = at(input);
                let mut pairs = Pairs::default();
                for _ in 0..input.list_of_structures(kind)? {
                    let start = at(input);
                    let is_text = pair_is_text(input)?;
                    pairs.add(&bytes[start..at(input)], is_text);
                }
                if let Some(pairs) = pairs.mended() {
                    found.edits.replace(start..at(input), &pairs);
                }
            }
            CREATED_BY => {
                let start = at(input);
                let text = String::from_utf8_lossy(input.bytes(kind)?);
                if text.contains(char::REPLACEMENT_CHARACTER) {
                    found.edits.replace(start..at(input), &binary(text.as_bytes()));
                }
            }
            COLUMN_ORDERS => {
                for _ in 0..input.list_of_structures(kind)? {
                    let start = at(input);
                    input.structure(|input, _, kind| input.skip(kind))?;
                    found.orders.push(start..at(input));
                }
            }
            _ => input.field(FILE_META_DATA, id, kind)?,
        }
        Some(())
    })?;
    found.applied(bytes, at(&input).checked_sub(1)?)
}

/// The changes that a footer needs.
#[derive(Default)]
struct FoundChanges {
    edits: Edits,
    /// For each leaf column, `true` if its annotation was changed or removed.
    leaves: Vec<bool>,
    /// For each leaf column, the byte range of the footer that states the order of its values.
    orders: Vec<Range<usize>>,
}

impl FoundChanges {
    fn element(&mut self, place: Range<usize>, element: Element<'_>) {
        let mended = element.mended();
        if element.is_leaf() {
            self.leaves.push(mended.is_some());
        }
        if let Some(element) = mended {
            self.edits.replace(place, &element);
        }
    }

    fn applied(mut self, bytes: &[u8], end: usize) -> Option<Vec<u8>> {
        if self.edits.is_empty() {
            return None;
        }
        if self.leaves.contains(&true) {
            let order = |(leaf, is_mended): (usize, &bool)| match self.orders.get(leaf) {
                Some(order) if !is_mended => bytes[order.clone()].to_vec(),
                _ => UNKNOWN_ORDER.to_vec(),
            };
            // A new list of column orders is added as the last field. If the footer already has one, readers
            // use the second.
            let mut orders = field_header(COLUMN_ORDERS, LIST);
            orders.extend(list_of_structures(self.leaves.len()));
            orders.extend(self.leaves.iter().enumerate().flat_map(order));
            self.edits.replace(end..end, &orders);
        }
        Some(self.edits.applied(bytes))
    }
}

/// Collects the key-value metadata of a footer: the encoded pairs that are UTF-8, and whether there are
/// others.
#[derive(Default)]
struct Pairs {
    count: usize,
    texts: Vec<u8>,
    has_others: bool,
}

impl Pairs {
    fn add(&mut self, pair: &[u8], is_text: bool) {
        match is_text {
            true => {
                self.count += 1;
                self.texts.extend_from_slice(pair);
            }
            false => self.has_others = true,
        }
    }

    /// The encoded list of the pairs that are UTF-8; `None` if all pairs are.
    fn mended(self) -> Option<Vec<u8>> {
        self.has_others.then(|| [list_of_structures(self.count), self.texts].concat())
    }
}

/// Reads past a key-value pair of the metadata. Returns whether both its key and its value are UTF-8.
fn pair_is_text(input: &mut Compact<'_>) -> Option<bool> {
    const KEY: i16 = 1;
    const VALUE: i16 = 2;
    let mut is_text = true;
    input.structure(|input, id, kind| match id {
        KEY | VALUE => {
            is_text &= std::str::from_utf8(input.bytes(kind)?).is_ok();
            Some(())
        }
        _ => input.field(KEY_VALUE, id, kind),
    })?;
    Some(is_text)
}

/// An element of the schema in a footer: a column, or a group of columns.
#[derive(Clone, Copy, Default)]
struct Element<'a> {
    name: &'a [u8],
    /// The values of the integer fields of the element, at the index that is the field's number in the
    /// format.
    numbers: [Option<i32>; 10],
    /// The encoded bytes of the logical type.
    logical: Option<&'a [u8]>,
    /// The scale and the precision, if the logical type is a decimal.
    decimal: Option<[i32; 2]>,
}

impl<'a> Element<'a> {
    const TYPE: usize = 1;
    const REPETITION: usize = 3;
    const NAME: i16 = 4;
    const CHILDREN: usize = 5;
    const CONVERTED: usize = 6;
    const SCALE: usize = 7;
    const PRECISION: usize = 8;
    const LOGICAL: i16 = 10;

    fn read(input: &mut Compact<'a>, bytes: &'a [u8]) -> Option<Self> {
        const DECIMAL: i16 = 5;
        let mut element = Element::default();
        input.structure(|input, id, kind| {
            match (id, usize::try_from(id)) {
                (Self::NAME, _) => element.name = input.bytes(kind)?,
                (Self::LOGICAL, _) => {
                    let start = bytes.len() - input.remaining();
                    input.structure(|input, id, kind| match (id, kind) {
                        (DECIMAL, STRUCT) => {
                            let decimal = element.decimal.insert([0; 2]);
                            input.structure(|input, id, kind| {
                                let at = usize::try_from(id.checked_sub(1)?).ok()?;
                                *decimal.get_mut(at)? = input.i32(kind)?;
                                Some(())
                            })
                        }
                        _ => input.skip(kind),
                    })?;
                    element.logical = Some(&bytes[start..bytes.len() - input.remaining()]);
                }
                (_, Ok(at)) if at < element.numbers.len() => element.numbers[at] = Some(input.i32(kind)?),
                _ => input.field(SCHEMA_ELEMENT, id, kind)?,
            }
            Some(())
        })?;
        Some(element)
    }

    fn is_leaf(&self) -> bool {
        self.numbers[Self::TYPE].is_some()
            && self.numbers[Self::CHILDREN].is_none_or(|children| children == 0)
    }

    fn is_annotated(&self) -> bool {
        self.logical.is_some() || self.numbers[Self::CONVERTED].is_some()
    }

    fn is_decimal(&self) -> bool {
        const DECIMAL: i32 = 5;
        self.decimal.is_some() || self.numbers[Self::CONVERTED] == Some(DECIMAL)
    }

    /// The encoded element with only the part of its annotation that fits the physical type: the logical
    /// type, or else the older converted type, or else nothing. `None` if the whole annotation fits, or if
    /// the element cannot be read in any of these forms.
    fn mended(&self) -> Option<Vec<u8>> {
        if !self.is_annotated() || self.fits() {
            return None;
        }
        let mut logical = *self;
        logical.numbers[Self::CONVERTED] = None;
        logical.numbers[Self::SCALE] = self.decimal.map(|[scale, _]| scale);
        logical.numbers[Self::PRECISION] = self.decimal.map(|[_, precision]| precision);
        let converted = Element { logical: None, ..*self };
        let mut physical = converted;
        for annotation in [Self::CONVERTED, Self::SCALE, Self::PRECISION] {
            physical.numbers[annotation] = None;
        }
        // A decimal is never read without an annotation, because its scale would be lost.
        let logical = Some(logical).filter(|_| self.decimal.is_some() || !self.is_decimal());
        let physical = Some(physical).filter(|_| !self.is_decimal());
        [logical, Some(converted), physical]
            .iter()
            .flatten()
            .find(|element| element.fits())
            .map(Element::written)
    }

    /// Whether the Parquet crate accepts a schema with only this element and, for a leaf column, gives it an
    /// Arrow type.
    fn fits(&self) -> bool {
        let child = Element { name: b"x", ..Element::default() }.with_number(Self::TYPE, 1);
        let child = child.with_number(Self::REPETITION, 1);
        let root = Element { name: b"m", ..Element::default() }.with_number(Self::CHILDREN, 1);
        let elements = match self.is_leaf() {
            true => vec![root, *self],
            false => vec![root, self.with_number(Self::CHILDREN, 1), child],
        };
        let written = elements.iter().flat_map(Element::written);
        let schema = [1 << 4 | I32, 2, 1 << 4 | LIST].into_iter().chain(list_of_structures(elements.len()));
        let footer: Vec<u8> = schema.chain(written).chain([0]).collect();
        ParquetMetaDataReader::decode_schema(&footer)
            .is_ok_and(|schema| !self.is_leaf() || arrow_schema(&schema, None).is_ok())
    }

    fn with_number(mut self, at: usize, number: i32) -> Self {
        self.numbers[at] = Some(number);
        self
    }

    fn written(&self) -> Vec<u8> {
        let mut made = Vec::new();
        let mut last = 0;
        for id in 1..=Self::LOGICAL {
            let mut field = |kind: u8| {
                made.push(((id - last) as u8) << 4 | kind);
                last = id;
            };
            match id {
                Self::NAME => {
                    field(BINARY);
                    made.extend(binary(self.name));
                }
                Self::LOGICAL => {
                    if let Some(logical) = self.logical {
                        field(STRUCT);
                        made.extend_from_slice(logical);
                    }
                }
                _ => {
                    if let Some(number) = self.numbers[id as usize] {
                        field(I32);
                        made.extend(int(number.into()));
                    }
                }
            }
        }
        made.push(0);
        made
    }
}
