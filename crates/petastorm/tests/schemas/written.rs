//! Writes pickles as Python 2 did, in lines of text.

#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::fmt::Write as _;

use forebay_petastorm::{Error, Unischema};

/// The attributes of a schema field; all but the name are pickled already.
pub(crate) struct Parts<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: &'a str,
    pub(crate) shape: &'a str,
    pub(crate) codec: &'a str,
    pub(crate) nullable: &'a str,
}

/// The attributes of a plain field: a scalar of type `int64` without a codec.
pub(crate) const PLAIN: Parts<'_> =
    Parts { name: "x", dtype: "cnumpy\nint64\n", shape: "(t", codec: "N", nullable: "I00\n" };

impl Parts<'_> {
    fn in_order(&self) -> String {
        let Parts { name, dtype, shape, codec, nullable } = self;
        format!("(S'{name}'\n{dtype}{shape}{codec}{nullable}t")
    }

    /// Pickles the field as protocol 2 does: as a new `UnischemaField`.
    pub(crate) fn as_new(&self) -> String {
        format!("cpetastorm.unischema\nUnischemaField\n{}\u{81}", self.in_order())
    }

    /// Pickles the field as protocols 0 and 1 do: as a call of `copy_reg._reconstructor` with a tuple.
    pub(crate) fn as_reconstructed(&self) -> String {
        let field = "cpetastorm.unischema\nUnischemaField\nc__builtin__\ntuple\n";
        format!("ccopy_reg\n_reconstructor\n({field}{}tR", self.in_order())
    }

    /// Pickles the field as PySpark does: as a call of `_restore` with the names and values of a named tuple.
    pub(crate) fn as_restored(&self) -> String {
        let names = "(S'name'\nS'numpy_dtype'\nS'shape'\nS'codec'\nS'nullable'\nt";
        format!("cpyspark.serializers\n_restore\n(S'UnischemaField'\n{names}{}tR", self.in_order())
    }
}

/// Pickles an object of the class `name` in `module`. Each attribute is a name and a pickled value.
pub(crate) fn object(module: &str, name: &str, attributes: &[(&str, &str)]) -> String {
    let mut text = format!("ccopy_reg\n_reconstructor\n(c{module}\n{name}\nc__builtin__\nobject\nNtR");
    if !attributes.is_empty() {
        text.push_str("(d");
        for (name, value) in attributes {
            write!(text, "S'{name}'\n{value}s").unwrap();
        }
        text.push('b');
    }
    text
}

/// Pickles an object of the class `name` in `pyspark.sql.types`.
pub(crate) fn spark(name: &str, attributes: &[(&str, &str)]) -> String {
    object("pyspark.sql.types", name, attributes)
}

/// Pickles an object of the class `name` in `petastorm.codecs`.
pub(crate) fn codec(name: &str, attributes: &[(&str, &str)]) -> String {
    object("petastorm.codecs", name, attributes)
}

/// The pickle of a schema with these fields, each a name and a pickled field.
pub(crate) fn schema(fields: &[(&str, String)]) -> String {
    let mut pairs = String::from("ccollections\nOrderedDict\n((l");
    for (name, field) in fields {
        write!(pairs, "(lS'{name}'\na{field}aa").unwrap();
    }
    pairs.push_str("tR");
    let attributes = [("_namedtuple", "N"), ("_name", "S'Written'\n"), ("_fields", pairs.as_str())];
    format!("{}.", object("petastorm.unischema", "Unischema", &attributes))
}

/// Converts a pickle to bytes: the code of each character, at most 255, is one byte.
pub(crate) fn bytes(pickle: &str) -> Vec<u8> {
    pickle.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
}

/// Reads the schema in a pickle whose characters stand for bytes, as in [`bytes`].
pub(crate) fn read(pickle: &str) -> Result<Unischema, Error> {
    Unischema::read(&bytes(pickle))
}
