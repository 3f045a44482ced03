//! Image columns that are delivered as several views (differently augmented versions of each image): their
//! codecs, their names, and the views that other columns follow.

use forebay_arrow::datatypes::{FieldRef, Schema};
use forebay_base::{Error, Result};

use super::LoaderBuilder;
use super::null_masks::Masked;
use super::places::of_column;
use crate::column::{Column, Followed, NamedView, Views, ViewsCodec, other_view};

impl LoaderBuilder {
    /// The columns that are delivered as several views, with their options.
    pub(super) fn all_views(&self) -> impl Iterator<Item = (&str, &Views)> {
        self.spec.with_option(|column| column.views.as_ref())
    }

    /// Makes the column of the first view of each image column with several views. It takes the place of the
    /// image column.
    pub(super) fn viewed(&self, read: &Schema, masked: &Masked<'_>) -> Result<Vec<(&str, Column)>> {
        let columns = self.all_views().map(|(name, views)| {
            let field = self.read_column(read, name, "decode")?;
            let is_followed = views
                .iter()
                .any(|view| view.image.emits_geometry() || self.has_followers(&view.column(name)));
            let codec = ViewsCodec::new(views, name, self.null_options(name, masked), is_followed)
                .and_then(|codec| Column::decoded(codec, field));
            Ok((name, codec.map_err(|error| error.at(of_column(name)))?))
        });
        columns.collect()
    }

    /// Makes the columns of all views except the first ones.
    pub(super) fn other_views(&self, read: &Schema) -> Result<Vec<Column>> {
        let mut columns = Vec::new();
        for (name, views) in self.all_views() {
            let first = read.index_of(name).unwrap_or_default();
            for view in views.iter().skip(1) {
                let column = other_view(view, name, first);
                columns.push(column.map_err(|error| error.at(of_column(&view.column(name))))?);
            }
        }
        Ok(columns)
    }

    /// Refuses views whose columns have the name of another column among `fields`.
    pub(super) fn check_names_of_views(&self, fields: &[FieldRef]) -> Result<()> {
        for (name, views) in self.all_views() {
            for view in views.iter().map(|view| view.column(name)) {
                if fields.iter().filter(|field| *field.name() == view).count() > 1 {
                    return Err(Error::invalid("a view of images has the name of another column")
                        .hint("give the view another name, or leave that column out of `columns`")
                        .at(of_column(&view)));
                }
            }
        }
        Ok(())
    }

    /// The view that is delivered in the column with this name, and the name of the column that it is made
    /// from.
    pub(super) fn view(&self, name: &str) -> Option<(&str, &NamedView)> {
        self.all_views().find_map(|(column, views)| {
            let view = views.iter().find(|view| view.column(column) == name)?;
            Some((column, view))
        })
    }

    /// The error for an option that is given for the column of a view, instead of the column that the view is
    /// made from. `None` if `name` is not a view.
    pub(super) fn names_a_view(&self, argument: &str, name: &str) -> Option<Error> {
        let (column, _) = self.view(name)?;
        let error = Error::invalid(format!("{argument} names {name:?}, a view of column {column:?}"));
        Some(error.hint(match argument {
            "rename" => format!(
                "rename {column:?}, with which the names of its views begin, or give the view another name in \
                 `decode`"
            ),
            _ => format!("name {column:?}: the option holds for all of its views"),
        }))
    }

    /// Returns a view as the image that another column follows. Fails if the view has several images for each
    /// row.
    pub(super) fn followed_view(&self, read: &Schema, column: &str, view: &NamedView) -> Result<Followed> {
        let name = view.column(column);
        if view.count.is_some() {
            return Err(Error::invalid(format!("follows {name:?}, which has several images for each row"))
                .hint("follow a view without a count"));
        }
        self.viewed_as(read, column, view)
    }

    /// Returns a view as an image that other columns can follow, even if it has several images for each row.
    pub(super) fn viewed_as(&self, read: &Schema, column: &str, view: &NamedView) -> Result<Followed> {
        self.read_column(read, column, "decode")?;
        let place = read.index_of(column).unwrap_or_default();
        let (name, image) = (view.column(column), view.image.clone());
        Ok(Followed { column: place, name, image, of: None, view: Some(view.tag()), around: None })
    }

    /// The error for a column that follows an image which is delivered only as views.
    pub(super) fn has_only_views(&self, image: &str) -> Option<Error> {
        let (_, views) = self.all_views().find(|(column, _)| *column == image)?;
        let name = views.iter().next()?.column(image);
        let error = Error::invalid(format!("follows column {image:?}, of which several views are delivered"));
        Some(error.hint(format!("follow one of them, such as {name:?}")))
    }
}
