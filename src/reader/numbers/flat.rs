//! Reads which rows of a column without lists have a value, from the definition levels of its pages.

use parquet::schema::types::ColumnDescriptor;

use super::page::DataPage;
use super::validity::Validity;
use crate::reader::integers::Runs;

/// The rows that have a value.
pub(super) struct Flat {
    has_levels: bool,
    pub(super) validity: Validity,
    /// The number of rows up to the end of the present chunk.
    pub(super) end: usize,
}

impl Flat {
    /// Prepares to read a column; `None` if it is not at the top level of the schema, or has lists.
    pub(super) fn for_column(column: &ColumnDescriptor) -> Option<Self> {
        let has_levels = match (column.path().parts().len(), column.max_rep_level(), column.max_def_level()) {
            (1, 0, most @ (0 | 1)) => most == 1,
            _ => return None,
        };
        Some(Flat { has_levels, validity: Validity::default(), end: 0 })
    }

    /// Reads the levels of a page, and returns the number of stored values.
    pub(super) fn page(&mut self, page: &DataPage<'_>) -> Option<usize> {
        if self.validity.len() + page.count > self.end {
            return None;
        }
        if !self.has_levels {
            self.validity.append(true, page.count);
            return Some(page.count);
        }
        let mut there = 0;
        Runs::new(page.definition, 1)?.each(page.count, |run| {
            there += self.validity.append_run(run)?;
            Some(())
        })?;
        Some(there)
    }
}
