//! The one error type: what went wrong, where, and what to do next.
//!
//! An error is opaque on purpose: callers branch on [`Error::kind`], people read the sentence. The sentence
//! has up to three parts, `place: cause (hint)`. The sentence is one line: control characters in it are
//! [escaped].
//!
//! ```text
//! data/part-0031.parquet, row group 7, row 512, column "image": corrupt JPEG: premature end
//! there is no column "lable" (did you mean "label"? the columns are image, label)
//! ```
//!
//! A hint names an option in backquotes, as the builder of a loader does. Python and the program write it in
//! their own form (`columns=[...]`, `--columns`) with [`Error::sentence`].

mod escape;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::panics::Panic;

pub use escape::{escaped, escaped_lines, is_obeyed};

/// The start of tokio's panic message when it cannot start a thread for blocking work. The system's reason
/// follows it.
const NO_THREAD: &str = "OS can't spawn worker thread: ";

/// The result of every function of this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`]: the part that a program branches on.
///
/// ```
/// # use forebay_base as forebay;
/// use forebay::{Error, ErrorKind};
///
/// fn may_come_later(error: &Error) -> bool {
///     matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Io)
/// }
/// # assert!(!may_come_later(&Error::invalid("batch size 0")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A path, URL or glob matches nothing.
    NotFound,
    /// An argument that can never work: batch size 0, rank outside the world, a malformed URL.
    Invalid,
    /// A column that the data set does not have.
    UnknownColumn,
    /// A type, table format or encryption that is not supported.
    Unsupported,
    /// Damaged or malformed Parquet.
    Corrupt,
    /// One row that cannot be delivered: a broken image, a null where a dense value is needed.
    BadRow,
    /// A file that has changed since the data set was opened.
    DatasetChanged,
    /// A saved position that does not belong to this loader.
    StateMismatch,
    /// A row group, batch or image that does not fit the memory budget, or an image over the limit on its
    /// pixels.
    TooLarge,
    /// Credentials that a store refuses, or that do not permit the read.
    Denied,
    /// A failure of the operating system or of the store, or a store that cannot be reached.
    Io,
    /// A loader that was closed, or that is used from a forked child.
    Closed,
    /// A bug: a panic that was caught, or a broken invariant of this library.
    Internal,
}

/// A place in the data set; unknown parts are `None`.
///
/// ```
/// # use forebay_base as forebay;
/// use forebay::Place;
///
/// let place = Place::file("data/a.parquet").row_group(7).row(512).column("image");
/// assert_eq!(place.to_string(), r#"data/a.parquet, row group 7, row 512, column "image""#);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Path or URL of the file.
    pub file: Option<Arc<str>>,
    /// Ordinal of the row group in the file.
    pub row_group: Option<usize>,
    /// Ordinal of the row in its row group.
    pub row: Option<u64>,
    /// Name of the column.
    pub column: Option<Arc<str>>,
}

impl Place {
    /// A place in `file`.
    pub fn file(file: impl Into<Arc<str>>) -> Self {
        Place { file: Some(file.into()), ..Place::default() }
    }

    /// The place, narrowed to a row group.
    pub fn row_group(self, row_group: usize) -> Self {
        Place { row_group: Some(row_group), ..self }
    }

    /// The place, narrowed to a row of the row group.
    pub fn row(self, row: u64) -> Self {
        Place { row: Some(row), ..self }
    }

    /// The place, narrowed to a column.
    pub fn column(self, column: impl Into<Arc<str>>) -> Self {
        Place { column: Some(column.into()), ..self }
    }

    fn is_empty(&self) -> bool {
        *self == Place::default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(file) = &self.file {
            f.write_str(&escaped(file))?;
            separator = ", ";
        }
        if let Some(row_group) = self.row_group {
            write!(f, "{separator}row group {row_group}")?;
            separator = ", ";
        }
        if let Some(row) = self.row {
            write!(f, "{separator}row {row}")?;
            separator = ", ";
        }
        if let Some(column) = &self.column {
            write!(f, "{separator}column {column:?}")?;
        }
        Ok(())
    }
}

/// A failure with its [kind](ErrorKind), its [place](Place), its cause in words and sometimes a hint.
///
/// An error is cheap to clone. Its [`source`](std::error::Error::source) is the error of I/O, Arrow or
/// Parquet that caused it, if there is one; errors of stores are not kept, since their texts may hold
/// secrets.
///
/// ```
/// # use forebay_base as forebay;
/// use forebay::{Error, ErrorKind, Place};
///
/// let error = Error::new(ErrorKind::BadRow, "corrupt JPEG: premature end")
///     .at(Place::file("a.parquet").row_group(7).row(512));
/// assert_eq!(error.to_string(), "a.parquet, row group 7, row 512: corrupt JPEG: premature end");
/// assert_eq!(error.place().row, Some(512));
/// ```
#[derive(Clone)]
pub struct Error(Arc<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    place: Place,
    cause: String,
    hint: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure of the given kind; `cause` is a clause without a full stop.
    pub fn new(kind: ErrorKind, cause: impl Into<String>) -> Self {
        Error(Arc::new(ErrorInner {
            kind,
            place: Place::default(),
            cause: cause.into(),
            hint: None,
            source: None,
        }))
    }

    /// The failure of an argument that can never work.
    pub fn invalid(cause: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, cause)
    }

    /// The failure of a loader that was closed.
    pub fn closed() -> Self {
        Error::new(ErrorKind::Closed, "the loader was closed").hint("build another")
    }

    /// The error for a failure of the operating system.
    pub fn of_io(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Error::new(kind, error.to_string()).caused_by(error)
    }

    /// Returns the error with the error that caused it as its source.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.inner().source = Some(Arc::new(source));
        self
    }

    /// Turns a panic into an error that says in `whose` code the bug is. If tokio panicked because the system
    /// refused it a thread, the error names that cause instead of a bug.
    pub fn panicked(whose: &str, panic: &Panic) -> Self {
        match panic.words().strip_prefix(NO_THREAD) {
            Some(why) => Error::not_started("a thread that reads", &why),
            None => Error::new(ErrorKind::Internal, format!("a bug in {whose}: {panic}")),
        }
    }

    /// The error for a thread, or another thing named `what`, that the system refused to start.
    pub fn not_started(what: &str, why: &dyn fmt::Display) -> Self {
        Error::new(ErrorKind::Io, format!("{what} could not be started: {why}")).hint(
            "let this process have more threads and memory: see `ulimit -u -v`, or the limits of its container",
        )
    }

    /// Returns the error with a hint: a clause without a full stop that says what the user can do. Options
    /// are in backquotes, with or without a value: "leave it out with `columns`", "`batch_size=64` fits".
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.inner().hint = Some(hint.into());
        self
    }

    /// Returns the error with `hint` added after its present hint, if it has one.
    #[must_use]
    pub fn hint_also(self, hint: &str) -> Self {
        let hint = self.0.hint.as_ref().map_or(hint.to_owned(), |first| format!("{first}; {hint}"));
        self.hint(hint)
    }

    /// Returns the error with a cause that begins with `option`, the name of the option that it is about.
    #[must_use]
    pub fn about(mut self, option: &str) -> Self {
        let inner = self.inner();
        inner.cause = format!("{option}: {}", inner.cause);
        self
    }

    /// Returns the error with this hint if it is about a damaged file and has no hint.
    #[must_use]
    pub fn hint_if_damaged(self, hint: &str) -> Self {
        match self.0.kind {
            ErrorKind::Corrupt => self.hint_if_none(hint),
            _ => self,
        }
    }

    /// Returns the error with this hint if it has no hint.
    #[must_use]
    pub fn hint_if_none(self, hint: &str) -> Self {
        match self.0.hint {
            None => self.hint(hint),
            Some(_) => self,
        }
    }

    /// Returns the error with another kind.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.inner().kind = kind;
        self
    }

    /// Returns the error with its place. Parts that an inner layer already set are kept.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        let inner = self.inner();
        let known = std::mem::take(&mut inner.place);
        inner.place = Place {
            file: known.file.or(place.file),
            row_group: known.row_group.or(place.row_group),
            row: known.row.or(place.row),
            column: known.column.or(place.column),
        };
        self
    }

    /// Returns the error as one that concerns every row of its file. The row group is moved from the place
    /// to the text of the cause, because the caller sets the place to any row of the file.
    #[must_use]
    pub fn of_whole_file(mut self) -> Self {
        let inner = self.inner();
        if let Some(row_group) = inner.place.row_group.take() {
            inner.cause = format!("row group {row_group}: {}", inner.cause);
        }
        self
    }

    /// Gives write access to the contents of this error. If clones share the contents, this error gets a copy
    /// first.
    fn inner(&mut self) -> &mut ErrorInner {
        Arc::make_mut(&mut self.0)
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The place of the failure, as far as it is known.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The cause without the place and the hint. It is not escaped, so it may hold control characters.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The sentence of the error. `option` formats each option in the hint from its name and, if there is
    /// one, its value.
    pub fn sentence(&self, option: impl Fn(&str, Option<&str>) -> String) -> String {
        let mut sentence = String::new();
        if !self.0.place.is_empty() {
            sentence.push_str(&format!("{}: ", self.0.place));
        }
        sentence.push_str(&escaped(&self.0.cause));
        if let Some(hint) = &self.0.hint {
            sentence.push_str(&format!(" ({})", escaped(&with_options(hint, option))));
        }
        sentence
    }
}

/// The hint, with each option in backquotes formatted by `option`.
fn with_options(hint: &str, option: impl Fn(&str, Option<&str>) -> String) -> Cow<'_, str> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let parts: Vec<&str> = hint.split('`').collect();
    if parts.len() < 3 {
        return Cow::Borrowed(hint);
    }
    // Every second part was between backquotes.
    let last = parts.len() - 1;
    let written = parts.iter().enumerate().map(|(at, part)| match at % 2 {
        0 => (*part).to_owned(),
        _ if at == last => format!("`{part}"),
        _ => match part.split_once('=') {
            Some((name, value)) if is_name(name) => option(name, Some(value)),
            None if is_name(part) => option(part, None),
            _ => format!("`{part}`"),
        },
    });
    Cow::Owned(written.collect())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(|name, value| match value {
            Some(value) => format!("{name}={value}"),
            None => name.to_owned(),
        }))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    /// The error of I/O, Arrow or Parquet that caused this one. Its text is already part of the sentence.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// The name among `candidates` that a misspelt `name` most likely means, for "did you mean" hints; `None` if
/// no candidate is close.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let furthest = name.chars().count() / 3 + 1;
    candidates
        .into_iter()
        .map(|candidate| (edits(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        // A name that shares no letter with the misspelt one is not close.
        .filter(|(distance, near)| *distance <= furthest && *distance < name.len().max(near.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The first `most` of some names for a message, and how many more there are.
pub fn listed<T: fmt::Display>(names: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut names = names.into_iter();
    let shown = names.by_ref().take(most).map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The Levenshtein distance of two texts. Only one row of its table is in memory at a time.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Runs a task and turns a panic in it into an error.
pub fn caught<T>(task: impl FnOnce() -> Result<T>) -> Result<T> {
    crate::panics::caught(task).unwrap_or_else(|panic| Err(Error::panicked("forebay", &panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_place_cause_and_next_move() {
        let error = Error::new(ErrorKind::BadRow, "corrupt JPEG: premature end")
            .at(Place::default().column("image").row(512))
            .at(Place::file("data/part-0031.parquet").row_group(7))
            .hint("pass on_bad_row to skip it");
        assert_eq!(
            error.to_string(),
            "data/part-0031.parquet, row group 7, row 512, column \"image\": corrupt JPEG: premature end \
             (pass on_bad_row to skip it)"
        );
        assert_eq!(error.kind(), ErrorKind::BadRow);
    }

    #[test]
    fn a_thread_that_the_system_refuses_is_no_bug() {
        let panic =
            crate::panics::caught(|| -> () { panic!("{NO_THREAD}Cannot allocate memory (os error 12)") });
        let error = Error::panicked("forebay", &panic.unwrap_err());
        let said = "a thread that reads could not be started: Cannot allocate memory (os error 12)";
        assert_eq!((error.kind(), error.cause()), (ErrorKind::Io, said));
        let panic = crate::panics::caught(|| -> () { panic!("index 3 out of bounds") });
        assert_eq!(Error::panicked("forebay", &panic.unwrap_err()).kind(), ErrorKind::Internal);
    }

    #[test]
    fn an_outer_layer_does_not_overwrite_what_an_inner_one_knew() {
        let error = Error::invalid("x").at(Place::default().row(3)).at(Place::file("f").row(9));
        assert_eq!(error.place().row, Some(3));
        assert_eq!(error.place().file.as_deref(), Some("f"));
    }

    #[test]
    fn a_sentence_is_one_line_whatever_names_hold() {
        let error = Error::new(ErrorKind::Corrupt, "a\u{1b}]0;title\u{7}\nb")
            .at(Place::file("x\u{9b}2J.parquet").column("c\u{202e}d"))
            .hint("did you mean e\u{2028}f?");
        let (sentence, column) = (error.to_string(), error.place().column.clone());
        assert!(!sentence.contains(is_obeyed), "{sentence:?}");
        assert!(
            sentence.starts_with("x\\u{9b}2J.parquet, column \"c\\u{202e}d\": a\\u{1b}]0;"),
            "{sentence}"
        );
        // Programs get the name without escapes.
        assert_eq!(column.as_deref(), Some("c\u{202e}d"));
    }

    #[test]
    fn options_are_written_as_the_reader_gives_them() {
        let error = Error::invalid("x").hint("leave out `drop_last`, or `batch_size=64` fits");
        assert_eq!(error.to_string(), "x (leave out drop_last, or batch_size=64 fits)");
        let program = |name: &str, value: Option<&str>| {
            format!("--{} {}", name.replace('_', "-"), value.unwrap_or_default()).trim_end().to_owned()
        };
        assert_eq!(error.sentence(program), "x (leave out --drop-last, or --batch-size 64 fits)");
        // A name from a file is not an option, and neither is text after a lone backquote.
        let error = Error::invalid("x").hint("did you mean `a b` or c`d?");
        assert_eq!(error.sentence(program), "x (did you mean `a b` or c`d?)");
    }

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let columns = ["image", "label", "path"];
        assert_eq!(nearest("imgae", columns), Some("image"));
        assert_eq!(nearest("Label", columns), Some("label"));
        assert_eq!(nearest("embedding", columns), None);
        assert_eq!(nearest("k", ["id"]), None);
    }

    #[test]
    fn a_list_of_names_says_how_many_more_there_are() {
        for (names, expected) in [(0..0, ""), (0..2, "0, 1"), (0..3, "0, 1 and 1 more")] {
            assert_eq!(listed(names, 2), expected);
        }
    }
}
