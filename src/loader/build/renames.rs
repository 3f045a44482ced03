//! The option `rename`: columns that are delivered under another name.

use std::collections::HashMap;

use forebay_arrow::datatypes::Schema;
use forebay_base::error::nearest;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::{Reads, Selected, joined};

use super::LoaderBuilder;
use super::places::of_column;

impl LoaderBuilder {
    /// Sets the delivered names of the selected columns that `rename` renames.
    ///
    /// Fails if `rename` names a column that is not selected, or if two columns would have one name.
    pub(super) fn name_selected(&self, selected: &mut [Selected]) -> Result<()> {
        if self.spec.rename.is_empty() {
            return Ok(());
        }
        let before: Vec<String> = selected.iter().map(|selected| self.unrenamed(selected)).collect();
        for (name, new) in &self.spec.rename {
            let at = before
                .iter()
                .position(|column| column == name)
                .ok_or_else(|| self.not_read(name, &before))?;
            if new.is_empty() {
                return Err(Error::invalid("rename gives it an empty name").at(of_column(name)));
            }
            selected[at].name = Some(new.clone());
        }
        let mut names: HashMap<&str, &str> = HashMap::new();
        for (column, selected) in before.iter().zip(&*selected) {
            let name = selected.name.as_deref().unwrap_or(column);
            let Some(other) = names.insert(name, column) else { continue };
            let cause = match (other == name, column == name) {
                (false, false) => format!("rename gives both {other:?} and {column:?} the name {name:?}"),
                (true, _) => format!("rename gives {column:?} the name {name:?}, which another column has"),
                (false, true) => {
                    format!("rename gives {other:?} the name {name:?}, which another column has")
                }
            };
            return Err(
                Error::invalid(cause).hint(format!("rename {name:?} as well, or leave it out of `columns`"))
            );
        }
        Ok(())
    }

    /// The name of a column before `rename`.
    pub(super) fn unrenamed(&self, selected: &Selected) -> String {
        let column = self.dataset.catalog.schema.field(selected.column).name();
        match &selected.of {
            Reads::Whole | Reads::Fields(_) => column.clone(),
            Reads::Field(path) => joined(column, path),
        }
    }

    /// The error if `rename` names a column that is not read.
    fn not_read(&self, name: &str, read: &[String]) -> Error {
        if let Some(error) = self.names_a_view("rename", name) {
            return error;
        }
        let within = read
            .iter()
            .find(|column| name.strip_prefix(column.as_str()).is_some_and(|rest| rest.starts_with('.')));
        if let Some(structure) = within {
            let cause = format!("rename names {name:?}, which is delivered as a part of {structure:?}");
            return Error::invalid(cause)
                .hint(format!("deliver its fields as columns: flatten {structure:?}"));
        }
        let is_there = self.dataset.catalog.column(name).is_ok() || self.path_is_there(name);
        if !is_there {
            return match nearest(name, read.iter().map(String::as_str)) {
                Some(near) => {
                    Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?} to rename"))
                        .hint(format!("did you mean {near:?}?"))
                }
                None => self.unknown(name),
            };
        }
        let fields =
            read.iter().any(|column| column.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
        match fields {
            true => {
                Error::invalid(format!("rename names column {name:?}, whose fields are columns of their own"))
                    .hint(format!(
                        "rename those, such as {:?}, or leave {name:?} out of `flatten`",
                        read.iter().find(|column| column.starts_with(name)).map_or("", String::as_str)
                    ))
            }
            false => Error::invalid(format!(
                "rename names column {name:?}, which is not among the columns to read"
            ))
            .hint("add it to `columns`"),
        }
    }

    /// The error if an option names a column that is delivered under another name, or not at all.
    pub(super) fn not_delivered(&self, read: &Schema, name: &str) -> Option<Error> {
        if let Some(new) = self.spec.rename.get(name) {
            let cause = format!("there is no column {name:?}, which is delivered as {new:?}");
            return Some(
                Error::invalid(cause)
                    .hint("options name a column as it is delivered, `columns` and `filter` as it is stored"),
            );
        }
        if self.spec.rename.is_empty() || self.dataset.catalog.column(name).is_ok() {
            return None;
        }
        let near = nearest(name, read.fields().iter().map(|field| field.name().as_str()))?;
        let error = Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}"));
        Some(error.hint(format!("did you mean {near:?}?")))
    }
}
