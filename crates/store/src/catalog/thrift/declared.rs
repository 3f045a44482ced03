//! The declarations of the structures in Parquet's footers and page headers: the types of their fields, from
//! the format's Thrift file.
//!
//! A union is declared as a structure, of which one field is written. Fields that are not declared here are
//! skipped.

use super::kinds::{BINARY, BOOL_FALSE, BOOL_TRUE, BYTE, DOUBLE, I16, I32, I64, LIST, STRUCT};

/// The id and the type of a field.
pub(crate) type Field = (i16, Kind);

/// The declared type of a value. An enumeration is a 32-bit integer.
pub(crate) enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static Kind),
    Struct(&'static [Field]),
}

impl Kind {
    /// The number of the type with which a value is written. For booleans it is the number of true; false has
    /// another one.
    pub(super) fn written(&self) -> u8 {
        match self {
            Kind::Bool => BOOL_TRUE,
            Kind::I8 => BYTE,
            Kind::I16 => I16,
            Kind::I32 => I32,
            Kind::I64 => I64,
            Kind::Double => DOUBLE,
            Kind::Binary => BINARY,
            Kind::List(_) => LIST,
            Kind::Struct(_) => STRUCT,
        }
    }

    /// Whether a field of this type may be written with the type `kind`.
    pub(super) fn is_written_as(&self, kind: u8) -> bool {
        kind == self.written() || matches!(self, Kind::Bool) && kind == BOOL_FALSE
    }
}

const EMPTY: Kind = Kind::Struct(&[]);

pub(crate) const FILE_META_DATA: &[Field] = &[
    (1, Kind::I32),
    (2, Kind::List(&Kind::Struct(SCHEMA_ELEMENT))),
    (3, Kind::I64),
    (4, Kind::List(&Kind::Struct(ROW_GROUP))),
    (5, Kind::List(&Kind::Struct(KEY_VALUE))),
    (6, Kind::Binary),
    (7, Kind::List(&Kind::Struct(COLUMN_ORDER))),
];

pub(crate) const SCHEMA_ELEMENT: &[Field] = &[
    (1, Kind::I32),
    (2, Kind::I32),
    (3, Kind::I32),
    (4, Kind::Binary),
    (5, Kind::I32),
    (6, Kind::I32),
    (7, Kind::I32),
    (8, Kind::I32),
    (9, Kind::I32),
    (10, Kind::Struct(LOGICAL_TYPE)),
];

const LOGICAL_TYPE: &[Field] = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Kind::Struct(&[(1, Kind::I32), (2, Kind::I32)])),
    (6, EMPTY),
    (7, Kind::Struct(TIME_TYPE)),
    (8, Kind::Struct(TIME_TYPE)),
    (10, Kind::Struct(&[(1, Kind::I8), (2, Kind::Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Kind::Struct(&[(1, Kind::I8)])),
    (17, Kind::Struct(&[(1, Kind::Binary)])),
    (18, Kind::Struct(&[(1, Kind::Binary), (2, Kind::I32)])),
];

const TIME_TYPE: &[Field] = &[(1, Kind::Bool), (2, Kind::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))];

const COLUMN_ORDER: &[Field] = &[(1, EMPTY), (2, EMPTY), (3, EMPTY)];

pub(crate) const KEY_VALUE: &[Field] = &[(1, Kind::Binary), (2, Kind::Binary)];

pub(crate) const ROW_GROUP: &[Field] = &[
    (1, Kind::List(&Kind::Struct(COLUMN_CHUNK))),
    (2, Kind::I64),
    (3, Kind::I64),
    (4, Kind::List(&Kind::Struct(&[(1, Kind::I32), (2, Kind::Bool), (3, Kind::Bool)]))),
    (5, Kind::I64),
    (6, Kind::I64),
    (7, Kind::I16),
];

pub(crate) const COLUMN_CHUNK: &[Field] = &[
    (1, Kind::Binary),
    (2, Kind::I64),
    (3, Kind::Struct(COLUMN_META_DATA)),
    (4, Kind::I64),
    (5, Kind::I32),
    (6, Kind::I64),
    (7, Kind::I32),
];

pub(crate) const COLUMN_META_DATA: &[Field] = &[
    (1, Kind::I32),
    (2, Kind::List(&Kind::I32)),
    (3, Kind::List(&Kind::Binary)),
    (4, Kind::I32),
    (5, Kind::I64),
    (6, Kind::I64),
    (7, Kind::I64),
    (8, Kind::List(&Kind::Struct(KEY_VALUE))),
    (9, Kind::I64),
    (10, Kind::I64),
    (11, Kind::I64),
    (12, Kind::Struct(STATISTICS)),
    (13, Kind::List(&Kind::Struct(&[(1, Kind::I32), (2, Kind::I32), (3, Kind::I32)]))),
    (14, Kind::I64),
    (15, Kind::I32),
    (16, Kind::Struct(SIZE_STATISTICS)),
    (17, Kind::Struct(&[(1, Kind::Struct(BOUNDING_BOX)), (2, Kind::List(&Kind::I32))])),
];

pub(crate) const SIZE_STATISTICS: &[Field] =
    &[(1, Kind::I64), (2, Kind::List(&Kind::I64)), (3, Kind::List(&Kind::I64))];

pub(super) const STATISTICS: &[Field] = &[
    (1, Kind::Binary),
    (2, Kind::Binary),
    (3, Kind::I64),
    (4, Kind::I64),
    (5, Kind::Binary),
    (6, Kind::Binary),
    (7, Kind::Bool),
    (8, Kind::Bool),
    (9, Kind::I64),
];

const BOUNDING_BOX: &[Field] = &[
    (1, Kind::Double),
    (2, Kind::Double),
    (3, Kind::Double),
    (4, Kind::Double),
    (5, Kind::Double),
    (6, Kind::Double),
    (7, Kind::Double),
    (8, Kind::Double),
];

/// The fields of a page header, except those with a header for one kind of page, which are declared below.
pub(crate) const PAGE_HEADER: &[Field] = &[(1, Kind::I32), (2, Kind::I32), (3, Kind::I32), (4, Kind::I32)];

pub(crate) const DATA_PAGE_HEADER: &[Field] =
    &[(1, Kind::I32), (2, Kind::I32), (3, Kind::I32), (4, Kind::I32), (5, Kind::Struct(STATISTICS))];

pub(crate) const DICTIONARY_PAGE_HEADER: &[Field] = &[(1, Kind::I32), (2, Kind::I32), (3, Kind::Bool)];

pub(crate) const DATA_PAGE_HEADER_V2: &[Field] = &[
    (1, Kind::I32),
    (2, Kind::I32),
    (3, Kind::I32),
    (4, Kind::I32),
    (5, Kind::I32),
    (6, Kind::I32),
    (7, Kind::Bool),
    (8, Kind::Struct(STATISTICS)),
];
