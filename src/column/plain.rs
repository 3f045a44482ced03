//! Columns that are delivered as they are stored, with a value for nulls if one is given.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::{Field, FieldRef};
use forebay_base::Result;

use super::{Gather, GatheredRows};
use crate::batch::{Fill, Selection, delivered, fill, gather};

/// Gathers values, and replaces nulls if there is a fill.
#[derive(Debug, Default)]
pub(crate) struct PlainCodec {
    pub(crate) fill: Option<Fill>,
}

impl Gather for PlainCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let field = delivered(stored);
        match &self.fill {
            None => Ok(field),
            Some(value) => {
                value.check(stored.data_type())?;
                Ok(Arc::new(field.as_ref().clone().with_nullable(false)))
            }
        }
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        Ok((gather(sources, selection, self.fill.as_ref())?, Vec::new()))
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn is_plain(&self) -> bool {
        self.fill.is_none()
    }

    fn keeps_values(&self) -> bool {
        true
    }

    /// Replacing nulls once in a row group takes less work than in each batch, which then has no validity to
    /// gather.
    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        match &self.fill {
            Some(value) => fill(column, value),
            None => Ok(column),
        }
    }
}
