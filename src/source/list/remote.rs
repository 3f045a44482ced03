//! The files of an object store.

use std::collections::BTreeSet;
use std::path::Path as LocalPath;

use futures::FutureExt;
use futures::future::try_join_all;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::{Found, chosen, empty, has_suffix, is_hidden, nothing};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::source::footer::TAIL;
use crate::source::glob::{Glob, Reach};
use crate::source::remote::{Pin, Remote};
use crate::source::tables::Table;

/// The root and the files of a key, a prefix or a glob. Where the store cannot list, the key must be that of a file.
pub(super) async fn find(
    remote: &Remote,
    volume: usize,
    key: &str,
    lists: bool,
) -> Result<(String, Vec<Found>)> {
    let here = Here { remote, volume };
    let place = Place::file(remote.shown(key));
    let found = match (Glob::split(LocalPath::new(key)), lists) {
        (None, false) if !key.is_empty() && !key.ends_with('/') => here.alone(key).await,
        (_, false) => {
            Err(Error::new(ErrorKind::Unsupported, "plain HTTP has no list of what lies in a folder")
                .hint("give the URLs of the files as a list"))
        }
        (Some((base, glob)), true) => here.matching(&base.to_string_lossy(), &glob).await,
        (None, true) => here.file_or_folder(key).await,
    };
    found.map_err(|error| error.at(place))
}

/// A store that is being searched.
struct Here<'a> {
    remote: &'a Remote,
    volume: usize,
}

/// A file below the folder that was listed.
struct Seen<'a> {
    /// Its path below the folder, with `/`.
    relative: &'a str,
    meta: &'a ObjectMeta,
}

impl Seen<'_> {
    fn name(&self) -> &str {
        self.relative.rsplit('/').next().unwrap_or_default()
    }
}

impl Here<'_> {
    /// A file of a store that does not list: its size and version come with its end.
    async fn alone(&self, key: &str) -> Result<(String, Vec<Found>)> {
        let path = path(key)?;
        let (meta, tail) = self.remote.tail(&path, TAIL).await?;
        let mut found = self.found(&meta)?;
        found.tail = Some(tail);
        Ok((parent(&found.whole), vec![found]))
    }

    async fn file_or_folder(&self, key: &str) -> Result<(String, Vec<Found>)> {
        if !key.is_empty() && !key.ends_with('/') {
            let file = self.remote.head(&path(key)?).await?;
            // Some tools mark a folder with an empty object of its name.
            if let Some(meta) = file.filter(|meta| meta.size > 0 || has_suffix(key)) {
                let found = self.found(&meta)?;
                return Ok((parent(&found.whole), vec![found]));
            }
        }
        self.folder(key.trim_end_matches('/')).await
    }

    /// The Parquet files below a prefix.
    async fn folder(&self, key: &str) -> Result<(String, Vec<Found>)> {
        let prefix = path(key)?;
        let (listed, ()) = futures::try_join!(self.remote.list(&prefix), self.refuse_above(key))?;
        let place = Place::file(self.remote.shown(key));
        let seen = below(&listed, &prefix);
        if let Some((folder, table)) = seen.iter().find_map(|seen| Table::shown_by(seen.relative)) {
            let shown = self.remote.shown(&joined(prefix.as_ref(), folder.trim_end_matches('/')));
            return Err(table.refusal(Place::file(shown)));
        }
        let seen = visible(seen);
        let chosen = chosen(&seen, Seen::name);
        if chosen.is_empty() {
            let names: BTreeSet<&str> = seen.iter().map(Seen::name).collect();
            return Err(nothing(place, "the folder holds no Parquet file", names));
        }
        let found = chosen.into_iter().map(|seen| self.found(seen.meta)).collect::<Result<_>>()?;
        Ok((self.remote.shown(prefix.as_ref()).trim_end_matches('/').to_string(), found))
    }

    /// The files that a glob reaches: those that it matches, and the Parquet files of folders that it matches.
    async fn matching(&self, base: &str, glob: &Glob) -> Result<(String, Vec<Found>)> {
        let base = base.trim_start_matches('.').trim_matches('/');
        let prefix = path(base)?;
        let listed = self.remote.list(&prefix).await?;
        let all = below(&listed, &prefix);
        let tables: Vec<(&str, Table)> =
            all.iter().filter_map(|seen| Table::shown_by(seen.relative)).collect();
        let seen = visible(all);
        let chosen = seen.iter().filter(|seen| match glob.reach(seen.relative) {
            Reach::Whole => glob.names_a_suffix() || has_suffix(seen.name()),
            Reach::Folder(_) => has_suffix(seen.name()),
            Reach::No => false,
        });
        let chosen: Vec<&Seen> = chosen.collect();
        let place = Place::file(self.remote.shown(base));
        if chosen.is_empty() {
            let names: BTreeSet<&str> = seen.iter().map(|seen| seen.relative).collect();
            return Err(nothing(place, "the glob matches no Parquet file below this folder", names));
        }
        // A table that lies beside what is matched is nobody's business.
        let within =
            tables.iter().find(|(folder, _)| chosen.iter().any(|seen| seen.relative.starts_with(folder)));
        if let Some((folder, table)) = within {
            let shown = self.remote.shown(&joined(prefix.as_ref(), folder.trim_end_matches('/')));
            return Err(table.refusal(Place::file(shown)));
        }
        self.refuse_above(base).await?;
        let found = chosen.into_iter().map(|seen| self.found(seen.meta)).collect::<Result<_>>()?;
        Ok((self.remote.shown(prefix.as_ref()).trim_end_matches('/').to_string(), found))
    }

    /// Refuses a folder that lies inside of a table, however deep. What may not be seen is taken for none.
    async fn refuse_above(&self, key: &str) -> Result<()> {
        let ancestors: Vec<&str> = match key {
            "" => Vec::new(),
            _ => std::iter::once("").chain(key.match_indices('/').map(|(at, _)| &key[..at])).collect(),
        };
        let signs = ancestors.iter().flat_map(|ancestor| Table::ALL.map(|table| (*ancestor, table)));
        let looked = try_join_all(signs.map(|(ancestor, table)| self.look(ancestor, table).boxed()));
        match looked.await?.into_iter().flatten().next() {
            Some((ancestor, table)) => Err(table.refusal(Place::file(self.remote.shown(ancestor)))),
            None => Ok(()),
        }
    }

    /// The folder, if it is that of such a table.
    async fn look<'a>(&self, folder: &'a str, table: Table) -> Result<Option<(&'a str, Table)>> {
        let signs = path(&joined(folder, table.folder()))?;
        let names = match self.remote.names_in(&signs).await {
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => return Ok(None),
            names => names?,
        };
        Ok(names.iter().any(|name| table.is_sign(name)).then_some((folder, table)))
    }

    fn found(&self, meta: &ObjectMeta) -> Result<Found> {
        let whole = self.remote.shown(meta.location.as_ref());
        if meta.size == 0 {
            return Err(empty(Place::file(whole)));
        }
        Ok(Found {
            shown: whole.as_str().into(),
            whole,
            relative: String::new(),
            volume: self.volume,
            pin: Pin::of(meta),
            tail: None,
        })
    }
}

/// What a listing has below its prefix.
fn below<'a>(listed: &'a [ObjectMeta], prefix: &Path) -> Vec<Seen<'a>> {
    let seen = listed.iter().filter_map(|meta| {
        let relative = meta.location.as_ref().strip_prefix(prefix.as_ref())?.trim_start_matches('/');
        // The prefix itself, and marks of folders, are not files in it.
        (!relative.is_empty()).then_some(Seen { relative, meta })
    });
    seen.collect()
}

/// Without what is passed over by its name, or the name of a folder that it lies in.
fn visible(seen: Vec<Seen<'_>>) -> Vec<Seen<'_>> {
    let is_mark = |seen: &Seen| seen.meta.size == 0 && !has_suffix(seen.name());
    seen.into_iter().filter(|seen| !seen.relative.split('/').any(is_hidden) && !is_mark(seen)).collect()
}

fn path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(|_| Error::invalid("the path has an empty, `.` or `..` part"))
}

fn joined(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_string(),
        (folder, "") => folder.to_string(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

fn parent(whole: &str) -> String {
    whole.rsplit_once('/').map_or("", |(folder, _)| folder).to_string()
}
