//! Plain values that pass between Python and the library: filters, states, reports and places of rows.

use forebay::{Error, ErrorKind, Filter, Position, RowPlace};

/// The place of a row for Python: its file, its row group, its number in the row group, and its id.
pub(crate) type Place = (String, usize, u64, i64);

pub(crate) fn place(row: RowPlace) -> Place {
    (row.file.to_string(), row.row_group, row.row, row.id.get())
}

pub(crate) fn parse_filter(filter: &str) -> forebay::Result<Filter> {
    serde_json::from_str(filter).map_err(|error| {
        Error::invalid(format!("this is not a filter: {error}")).hint("pass [(column, op, value), ...]")
    })
}

pub(crate) fn json(value: &impl serde::Serialize) -> forebay::Result<String> {
    serde_json::to_string(value).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

/// Parses a state from JSON. `what` names the kind of object, such as a loader, whose `state_dict` returned
/// it.
pub(crate) fn parse_state(state: &str, what: &str) -> forebay::Result<Position> {
    // The text is parsed to a JSON value first, so that errors do not name a line: the user passed a dict.
    let state = serde_json::from_str::<serde_json::Value>(state).and_then(serde_json::from_value);
    state.map_err(|error| {
        Error::new(ErrorKind::StateMismatch, format!("this cannot be read as a state of {what}: {error}"))
            .hint(format!("pass what state_dict() of {what} returned, in a release that reads its format"))
    })
}
