//! The errors of a schema that cannot be read.

use forebay_base::{Error, ErrorKind};

/// As much of a foreign name as an error repeats, in characters.
const NAME: usize = 100;

/// The next move where a schema is damaged.
const AGAIN: &str =
    "write the schema again with `petastorm-generate-metadata.py`, which comes with Petastorm";

/// Bytes that are not a pickle.
pub(crate) fn damaged(at: usize, what: impl AsRef<str>) -> Error {
    let cause = format!("the Petastorm schema is damaged at byte {at}: {}", what.as_ref());
    Error::new(ErrorKind::Corrupt, cause).hint(AGAIN)
}

/// A pickle that is not a schema.
pub(crate) fn malformed(what: impl AsRef<str>) -> Error {
    let cause = format!("the Petastorm schema is malformed: {}", what.as_ref());
    Error::new(ErrorKind::Corrupt, cause).hint(AGAIN)
}

/// A pickle that names what no schema of Petastorm does.
pub(crate) fn foreign(at: usize, module: &str, name: &str) -> Error {
    let named = shortened(&format!("{module}.{name}"));
    let cause = format!("the schema names `{named}` at byte {at}, which no Petastorm schema does");
    Error::new(ErrorKind::Unsupported, cause)
        .hint("it was not imported or run here, and other readers of this data set may do so")
}

/// A type that exists, and that no column can be read with.
pub(crate) fn unread(at: usize, module: &str, name: &str) -> Error {
    let named = shortened(&format!("{module}.{name}"));
    Error::new(
        ErrorKind::Unsupported,
        format!("the schema has the type `{named}` at byte {at}, which is not read"),
    )
    .hint("write the data set without fields of that type")
}

/// `name` in a length that an error can have.
pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
