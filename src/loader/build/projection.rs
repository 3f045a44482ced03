//! Chooses the columns to read: by name, by pattern, and by the path of a field in a structure.

use std::collections::HashSet;

use forebay_arrow::datatypes::{DataType, Field, Fields};
use forebay_arrow::names::TypeName;
use forebay_arrow::vectors::SparkMl;
use forebay_base::error::nearest;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::{Projection, Reads, Selected, fields_of, joined};
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::places::of_column;
use super::vectors::check_fields;
use crate::loader::spec::Flatten;

/// A column, or a field in it: an index into the catalogue's schema, and the names that lead from this column
/// to the field.
type Path = (usize, Vec<String>);

impl LoaderBuilder {
    pub(super) fn projection(&self) -> Result<Projection> {
        let catalog = &self.dataset.catalog;
        let is_flat = self.flattened()?;
        let all = || {
            (0..catalog.schema.fields().len()).flat_map(|column| self.fields((column, Vec::new()), &is_flat))
        };
        let paths = match &self.spec.columns {
            None if catalog.schema.fields().is_empty() && !catalog.files.is_empty() => {
                return Err(Error::invalid("the files have no columns").hint("check the location"));
            }
            None => all().collect(),
            Some(listed) if listed.is_empty() && self.spec.stack.is_empty() => {
                return Err(
                    Error::invalid("the list of columns is empty").hint("leave out `columns` to read all")
                );
            }
            Some(listed) => {
                let stacked = self.spec.stack.values().flat_map(|stack| stack.columns());
                let mut listed = listed.clone();
                for name in stacked {
                    if !listed.contains(name) {
                        listed.push(name.clone());
                    }
                }
                self.listed(&listed, &all().collect::<Vec<_>>(), &is_flat)?
            }
        };
        if let Flatten::Columns(names) = &self.spec.flatten {
            for name in names {
                let column = catalog.column(name)?;
                if !paths.iter().any(|(read, _)| *read == column) {
                    let cause =
                        format!("flatten names column {name:?}, which is not among the columns to read");
                    return Err(Error::invalid(cause).hint("add it to `columns`"));
                }
                if paths.contains(&(column, Vec::new())) {
                    return Err(Error::invalid(
                        "cannot be flattened: it is delivered as lists of all values",
                    )
                    .hint("leave it out of `flatten`, or name the fields to read in `columns`")
                    .at(of_column(name)));
                }
            }
        }
        self.check_values(&paths)?;
        let mut selected = self.selected(paths, &is_flat)?;
        self.name_selected(&mut selected)?;
        catalog.select(selected)
    }

    /// For each column of the catalogue, whether its fields are delivered as separate columns.
    fn flattened(&self) -> Result<Vec<bool>> {
        let fields = self.dataset.catalog.schema.fields();
        let can_be =
            |field: &Field| fields_of(field.data_type()).is_some() && !self.is_made_of_it(field.name());
        let is_structure = |field: &Field| matches!(field.data_type(), DataType::Struct(_));
        match &self.spec.flatten {
            Flatten::All(all) => Ok({
                let is_flat = |field: &Field| *all && is_structure(field) && can_be(field);
                fields.iter().map(|field| is_flat(field)).collect()
            }),
            Flatten::Columns(names) => {
                for name in names {
                    let field = &fields[self.dataset.catalog.column(name)?];
                    if !can_be(field) {
                        let cause = match field.data_type() {
                            stored if fields_of(stored).is_some() => {
                                "another option says how it is delivered".to_owned()
                            }
                            other => format!("it holds {}", TypeName(other)),
                        };
                        return Err(Error::invalid(format!("cannot be flattened: {cause}"))
                            .hint("only the fields of structures, or of lists of structures, are delivered as columns")
                            .at(of_column(name)));
                    }
                }
                Ok(fields.iter().map(|field| names.contains(field.name())).collect())
            }
        }
    }

    /// Whether an option needs a column as a whole, as images need `struct<bytes, path>`.
    fn is_made_of_it(&self, name: &str) -> bool {
        let name = self.spec.rename.get(name).map_or(name, String::as_str);
        let column = self.spec.by_column.get(name);
        self.decodes_images_of(name)
            || column.is_some_and(|column| column.given().iter().any(|given| given.takes_whole))
            || self.decoders.iter().any(|(column, _)| column == name)
    }

    fn name(&self, (column, path): &Path) -> String {
        joined(self.dataset.catalog.schema.field(*column).name(), path)
    }

    /// The type of the field at the end of a path in a column.
    fn type_at(&self, column: usize, path: &[String]) -> &DataType {
        let mut data_type = self.dataset.catalog.schema.field(column).data_type();
        for (depth, name) in path.iter().enumerate() {
            let fields = match data_type {
                DataType::Struct(fields) => Some(fields),
                list if depth == 0 => fields_of(list),
                _ => None,
            };
            let Some((_, field)) = fields.and_then(|fields| fields.find(name)) else { break };
            data_type = field.data_type();
        }
        data_type
    }

    /// Refuses to read the field `values` of vectors or matrices without a field that tells sparse ones from
    /// dense ones.
    fn check_values(&self, paths: &[Path]) -> Result<()> {
        for (column, path) in paths {
            let Some((_, structure)) = path.split_last() else { continue };
            let fields: Vec<&str> = paths
                .iter()
                .filter(|(other, path)| other == column && path.len() == structure.len() + 1)
                .filter_map(|(_, path)| path.strip_prefix(structure)?.first().map(String::as_str))
                .collect();
            let name = joined(self.dataset.catalog.schema.field(*column).name(), structure);
            check_fields(&name, self.type_at(*column, structure), &fields)?;
        }
        Ok(())
    }

    /// The field at a path, or, if it is a structure that is flattened, all fields in it.
    fn fields(&self, (column, path): Path, is_flat: &[bool]) -> Vec<Path> {
        let data_type = self.type_at(column, &path);
        let here = (column, path);
        let fields = match data_type {
            DataType::Struct(fields) => Some(fields),
            list if here.1.is_empty() => fields_of(list),
            _ => None,
        };
        match fields {
            Some(fields)
                if is_flat[column]
                    && SparkMl::from_type(data_type) != Some(SparkMl::Vector)
                    && !self.is_made_of_it(&self.name(&here)) =>
            {
                let inside = |field: &Field| (column, [here.1.clone(), vec![field.name().clone()]].concat());
                fields.iter().flat_map(|field| self.fields(inside(field), is_flat)).collect()
            }
            _ => vec![here],
        }
    }

    /// The fields that the names and patterns in `listed` select. Patterns select among `all` fields.
    fn listed(&self, listed: &[String], all: &[Path], is_flat: &[bool]) -> Result<Vec<Path>> {
        let schema = &self.dataset.catalog.schema;
        let mut paths: Vec<Path> = Vec::with_capacity(listed.len());
        for (at, name) in listed.iter().enumerate() {
            // An existing name is not a pattern, even if it has characters such as `*`.
            let found = match schema.column_with_name(name) {
                Some((column, _)) => Some((column, Vec::new())),
                None => self.path(name, is_flat)?,
            };
            if let Some(found) = found {
                if listed[..at].contains(name) {
                    let cause = format!("column {name:?} is listed twice, again at place {}", at + 1);
                    return Err(Error::invalid(cause));
                }
                paths.extend(self.fields(found, is_flat));
                continue;
            }
            if !is_pattern(name) {
                return Err(self.unknown(name));
            }
            let column = |path: &Path| schema.field(path.0).name();
            let matching = all
                .iter()
                .filter(|path| matches_name(name, &self.name(path)) || matches_name(name, column(path)));
            let mut matching = matching.peekable();
            if matching.peek().is_none() {
                let error = Error::new(ErrorKind::UnknownColumn, format!("no column matches {name:?}"));
                return Err(error.hint("`*` and `?` stand for any characters, `[0-9]` for one of several"));
            }
            // A column that is both named and matched by a pattern comes where it is named.
            let is_named = |path: &Path| listed.contains(&self.name(path)) || listed.contains(column(path));
            paths.extend(matching.filter(|path| !is_named(path)).cloned());
            let mut seen = HashSet::new();
            paths.retain(|path| seen.insert(path.clone()));
        }
        Ok(paths)
    }

    /// Whether a name such as `meta.author` leads to a field.
    pub(super) fn path_is_there(&self, name: &str) -> bool {
        let is_flat = self.flattened().unwrap_or_default();
        !matches!(self.path(name, &is_flat), Ok(None))
    }

    /// Finds the field with a name such as `meta.author`. It is in structures at any depth, or in a list of
    /// structures that is flattened.
    fn path(&self, name: &str, is_flat: &[bool]) -> Result<Option<Path>> {
        let fields = self.dataset.catalog.schema.fields().iter().enumerate();
        let inside = fields.filter_map(|(column, field)| {
            let is_flat = is_flat.get(column).is_some_and(|is_flat| *is_flat);
            match field.data_type() {
                DataType::Struct(fields) => Some((column, fields, rest(field, name)?)),
                list if is_flat => Some((column, fields_of(list)?, rest(field, name)?)),
                _ => None,
            }
        });
        let paths = inside.flat_map(|(column, fields, rest)| {
            within(fields, rest).into_iter().map(move |path| (column, path))
        });
        let mut paths = paths.take(2);
        match (paths.next(), paths.next()) {
            (Some(_), Some(_)) => Err(Error::invalid(format!("{name:?} may be one of several fields"))
                .hint("read the whole structure, or write fields with other names")),
            (path, _) => Ok(path),
        }
    }

    /// The error for a name that is neither a column nor a field.
    pub(super) fn unknown(&self, name: &str) -> Error {
        let catalog = &self.dataset.catalog;
        let around = name.split_once('.').and_then(|(column, _)| catalog.schema.column_with_name(column));
        let Some((column, fields)) =
            around.and_then(|(_, field)| Some((field.name(), fields_of(field.data_type())?)))
        else {
            return match catalog.column(name) {
                Err(error) => error,
                Ok(_) => Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}")),
            };
        };
        let names: Vec<String> = fields.iter().map(|field| format!("{column}.{}", field.name())).collect();
        let cause = format!("there is no column {name:?}, nor such a field in {column:?}");
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) if near == name => {
                format!("it is in a list of structures: add {column:?} to `flatten`")
            }
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("{column:?} is a structure of {} fields", names.len()),
        };
        Error::new(ErrorKind::UnknownColumn, cause).hint(hint)
    }

    /// Turns paths into columns to read. Several fields of one structure become one column, unless the
    /// structure is flattened.
    fn selected(&self, paths: Vec<Path>, is_flat: &[bool]) -> Result<Vec<Selected>> {
        let mut selected: Vec<Selected> = Vec::with_capacity(paths.len());
        let mut seen: HashSet<&Path> = HashSet::new();
        for at in &paths {
            let (column, path) = at;
            // A field would be read twice if it were listed twice, or together with a structure that contains
            // it.
            let around = (0..path.len()).map(|depth| (*column, path[..depth].to_vec()));
            let around = around.into_iter().find(|around| paths.contains(around));
            if let Some(twice) = around.or_else(|| (!seen.insert(at)).then(|| at.clone())) {
                let (name, around) = (self.name(at), self.name(&twice));
                let cause = match name == around {
                    true => format!("{name:?} is read twice"),
                    false => format!("{name:?} is read twice, as it is part of {around:?}"),
                };
                return Err(Error::invalid(cause).hint("leave one of them out of `columns`"));
            }
            if path.is_empty() {
                selected.push(Selected::whole(*column));
            } else if is_flat[*column] {
                selected.push(Selected::new(*column, Reads::Field(path.clone())));
            } else {
                let same = selected.iter_mut().find(|selected| selected.column == *column);
                match same {
                    Some(Selected { of: Reads::Fields(paths), .. }) => paths.push(path.clone()),
                    _ => selected.push(Selected::new(*column, Reads::Fields(vec![path.clone()]))),
                }
            }
        }
        self.check_names(&selected)?;
        Ok(selected)
    }

    /// Refuses flattened fields whose names as columns are also the names of other columns.
    fn check_names(&self, selected: &[Selected]) -> Result<()> {
        let schema = &self.dataset.catalog.schema;
        let mut names = HashSet::new();
        for Selected { column, of, .. } in selected {
            let Reads::Field(path) = of else { continue };
            let structure = schema.field(*column).name();
            let name = joined(structure, path);
            if schema.column_with_name(&name).is_some() || !names.insert(name.clone()) {
                let cause =
                    format!("flattening column {structure:?} makes a column {name:?}, which exists already");
                return Err(Error::invalid(cause)
                    .hint(format!("leave {structure:?} out of `flatten`, or of `columns`"))
                    .at(of_column(structure)));
            }
        }
        Ok(())
    }
}

/// The part of `name` after the name of `field` and a dot; `None` if `name` does not begin with these.
fn rest<'n>(field: &Field, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(field.name().as_str())?.strip_prefix('.')
}

/// The paths in a structure that a name may mean. There may be several, since names of fields may contain
/// dots.
fn within(fields: &Fields, name: &str) -> Vec<Vec<String>> {
    let each = fields.iter().flat_map(|field| {
        let itself = (field.name() == name).then(|| vec![field.name().clone()]);
        let inside = match (field.data_type(), rest(field, name)) {
            (DataType::Struct(fields), Some(rest)) => within(fields, rest),
            _ => Vec::new(),
        };
        let inside = inside.into_iter().map(|path| [vec![field.name().clone()], path].concat());
        itself.into_iter().chain(inside).collect::<Vec<_>>()
    });
    each.collect()
}
