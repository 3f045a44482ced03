//! Finds the files of a location in an object store.

pub(super) mod file;

use std::collections::BTreeSet;

use forebay_base::{Error, ErrorKind, Place, Result};
use futures::FutureExt;
use futures::future::try_join_all;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::location::{FoundTable, Location};
use super::names::{COMMON_METADATA, chosen, has_suffix, is_hidden, nothing};
use super::partition::note_keys;
use crate::snapshot::{DataFile, IndexPlace, MetadataFile, Pin, Snapshot};
use crate::source::clouds::Meaning;
use crate::source::footer::TAIL;
use crate::source::glob::{Glob, Reach, WILDCARDS};
use crate::source::index;
use crate::source::remote::Remote;
use crate::source::tables::{self, TableFormat, TableRoot};
use file::{joined, path};

/// The number of pages of a listing below a prefix that are read at first. If there are more, a folder is
/// checked for being a table, and a glob's folders are listed one by one.
const FLAT_PAGES: usize = 4;

/// If a glob may reach into more folders than this at one depth, they are not listed one by one.
const MOST_FOLDERS: usize = 32;

/// Finds the files of a location, which may be an object, a prefix or a glob. If it has several meanings, the
/// first one for which there are objects counts.
pub(super) async fn find(remote: &Remote, volume: usize, meanings: &[Meaning]) -> Result<Location> {
    let here = Here { remote, volume };
    let mut missing = None;
    for meaning in meanings {
        let found = here.find(meaning).await;
        match found.map_err(|error| error.at(Place::file(remote.shown(&meaning.key)))) {
            Err(error) if error.kind() == ErrorKind::NotFound => missing = missing.or(Some(error)),
            found => return found,
        }
    }
    Err(missing.unwrap_or_else(|| Error::new(ErrorKind::Internal, "a key that means nothing")))
}

/// Finds a single file in a store that cannot list objects. A read of its last bytes also gives its size and
/// version.
pub(super) async fn find_alone(remote: &Remote, volume: usize, key: &str) -> Result<Location> {
    let no_list = || {
        Error::new(ErrorKind::Unsupported, "a folder cannot be listed over plain HTTP")
            .hint("give the URLs of the files as a list")
    };
    if let Some(table) = table_of(key) {
        return Ok(Location::Table(table));
    }
    let here = Here { remote, volume };
    let found = match key.is_empty() || key.ends_with('/') {
        true => Err(no_list()),
        false => match here.alone(key).await {
            // A `*` or `?` may be a part of the name. Only if there is no such file was a glob meant, which
            // needs a listing.
            Err(error) if error.kind() == ErrorKind::NotFound && key.contains(WILDCARDS) => Err(no_list()),
            found => found,
        },
    };
    found.map_err(|error| error.at(Place::file(remote.shown(key))))
}

/// Objects below a prefix, ordered by path. They include all objects that a glob may match, and perhaps
/// others.
#[derive(Default)]
struct Listed {
    objects: Vec<ObjectMeta>,
    /// The folders that the glob does not reach into, as paths below the prefix. They end in `/`.
    passed: Vec<String>,
}

/// The store that is searched, and the index of its volume.
struct Here<'a> {
    remote: &'a Remote,
    volume: usize,
}

/// An object below the folder that was listed.
struct SeenObject<'a> {
    /// The path of the object below the folder, with `/` between names.
    relative: &'a str,
    meta: &'a ObjectMeta,
}

impl SeenObject<'_> {
    fn name(&self) -> &str {
        self.relative.rsplit('/').next().unwrap_or_default()
    }
}

impl Here<'_> {
    async fn find(&self, meaning: &Meaning) -> Result<Location> {
        let Some(glob) = &meaning.glob else { return self.file_or_folder(&meaning.key).await };
        // If an object has exactly this name, it is meant, even if the name could be a glob.
        match self.file(&meaning.key).await {
            Ok(Some(file)) => return Ok(Location::Files(file)),
            // `Denied` is ignored, because a store may refuse the lookup of an object that does not exist
            // although the credentials allow listing.
            Err(error) if error.kind() != ErrorKind::Denied => return Err(error),
            _ => {}
        }
        match self.matching(glob).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.folder(&meaning.key).await.map_err(|literally| match literally.kind() {
                    // The credentials may not allow listing below a name that does not exist, so this error
                    // is ignored, too.
                    ErrorKind::NotFound | ErrorKind::Denied => error,
                    _ => literally,
                })
            }
            found => found,
        }
    }

    async fn alone(&self, key: &str) -> Result<Location> {
        let path = path(key)?;
        let (meta, tail) = self.remote.tail(&path, TAIL).await?;
        let file = DataFile { tail: Some(tail), ..self.data_file(&meta)? };
        Ok(Location::Files(Snapshot::of_file(file)))
    }

    async fn file_or_folder(&self, key: &str) -> Result<Location> {
        if let Some(table) = table_of(key) {
            return Ok(Location::Table(table));
        }
        match self.file(key).await? {
            Some(file) => Ok(Location::Files(file)),
            None => self.folder(key).await,
        }
    }

    /// The object with exactly this key; `None` if it does not exist, or only marks a folder.
    async fn file(&self, key: &str) -> Result<Option<Snapshot>> {
        if key.is_empty() || key.ends_with('/') {
            return Ok(None);
        }
        let file = self.remote.head(&path(key)?).await?;
        // Some tools mark a folder by an empty object with its name.
        let is_mark = match &file {
            Some(meta) if meta.size == 0 => !has_suffix(key) || self.marks_a_folder(&meta.location).await?,
            _ => false,
        };
        let file = file.filter(|_| !is_mark);
        file.map(|meta| self.data_file(&meta).map(Snapshot::of_file)).transpose()
    }

    /// Whether an empty object marks a folder.
    async fn marks_a_folder(&self, path: &Path) -> Result<bool> {
        let below = self.remote.list_folder(path).await?;
        let is_inside = |meta: &ObjectMeta| meta.location != *path;
        Ok(!below.common_prefixes.is_empty()
            || below.objects.iter().any(is_inside)
            || self.remote.is_folder_mark(path).await?)
    }

    /// Finds the Parquet files below a prefix, or the table that is there.
    async fn folder(&self, key: &str) -> Result<Location> {
        let is_folder = key.is_empty() || key.ends_with('/');
        let key = key.trim_end_matches('/');
        let prefix = path(key)?;
        let (few, ()) =
            futures::try_join!(self.remote.list_at_most(&prefix, FLAT_PAGES), self.refuse_above(key))?;
        let listed = match few {
            Some(few) => few,
            // The full listing would take many requests. It is not needed if the folder is a table, because a
            // table has its own list of files.
            None => match self.table(key).await? {
                Some(format) => return Ok(Location::table(format, TableRoot::Key(prefix.to_string()))),
                None => self.remote.list(&prefix).await?,
            },
        };
        let place = Place::file(self.remote.shown(key));
        let all = below(&listed, &prefix);
        if all.is_empty() {
            let cause = match is_folder {
                true => "there are no objects below this prefix",
                false => "object not found, and there are no objects below this prefix",
            };
            return Err(Error::new(ErrorKind::NotFound, cause).at(place));
        }
        let tables = || all.iter().filter_map(|seen| tables::shown_by(seen.relative));
        if let Some((_, format)) = tables().find(|(folder, _)| folder.is_empty()) {
            return Ok(Location::table(format, TableRoot::Key(prefix.to_string())));
        }
        if let Some((folder, format)) = tables().next() {
            let shown = self.remote.shown(&joined(prefix.as_ref(), folder.trim_end_matches('/')));
            return Err(tables::refusal(format, Place::file(shown)));
        }
        let seen = self.visible(all).await?;
        let chosen = chosen(&seen, SeenObject::name);
        if chosen.is_empty() {
            let names: BTreeSet<&str> = seen.iter().map(SeenObject::name).collect();
            return Err(nothing(place, "the folder holds no Parquet file", names));
        }
        self.snapshot(&prefix, None, &chosen, &listed)
    }

    /// Finds the files that a glob matches, and the Parquet files in folders that it matches.
    async fn matching(&self, glob: &Glob) -> Result<Location> {
        let base = glob.base().to_string_lossy();
        let base = base.trim_start_matches('.').trim_matches('/');
        let prefix = path(base)?;
        let Listed { objects, passed } = self.list(&prefix, glob).await?;
        let all = below(&objects, &prefix);
        let tables: Vec<_> = all.iter().filter_map(|seen| tables::shown_by(seen.relative)).collect();
        let place = Place::file(self.remote.shown(base));
        if all.is_empty() && passed.is_empty() {
            let cause = "the glob starts at a prefix without objects";
            return Err(Error::new(ErrorKind::NotFound, cause).at(place));
        }
        let seen = self.visible(all).await?;
        let chosen = seen.iter().filter(|seen| match glob.reach(seen.relative) {
            Reach::Whole => glob.names_a_suffix() || has_suffix(seen.name()),
            Reach::Folder(_) => has_suffix(seen.name()),
            Reach::No => false,
        });
        let chosen: Vec<&SeenObject> = chosen.collect();
        if chosen.is_empty() {
            let names = seen.iter().map(|seen| seen.relative).chain(passed.iter().map(String::as_str));
            let names: BTreeSet<&str> = names.collect();
            return Err(nothing(place, "the glob matches no Parquet file below this folder", names));
        }
        // Tables are refused only if one of the chosen files is inside.
        let within =
            tables.iter().find(|(folder, _)| chosen.iter().any(|seen| seen.relative.starts_with(folder)));
        if let Some((folder, format)) = within {
            let shown = self.remote.shown(&joined(prefix.as_ref(), folder.trim_end_matches('/')));
            return Err(tables::refusal(*format, Place::file(shown)));
        }
        self.refuse_above(base).await?;
        self.snapshot(&prefix, Some(glob), &chosen, &objects)
    }

    /// Lists the objects below a prefix that a glob may match, and perhaps others.
    ///
    /// A page of a listing has a thousand objects, and listing a folder takes at least one request. So all
    /// objects below the prefix are listed, unless they fill many pages and the glob may reach into few
    /// folders; then these folders are listed one by one. If the glob has at most one name before `**` or its
    /// end, everything is listed in any case.
    async fn list(&self, prefix: &Path, glob: &Glob) -> Result<Listed> {
        let depth = glob.named_depth();
        let pages = if depth > 1 { FLAT_PAGES } else { usize::MAX };
        if let Some(objects) = self.remote.list_at_most(prefix, pages).await? {
            return Ok(Listed { objects, passed: Vec::new() });
        }
        let (mut listed, mut folders) = (Listed::default(), vec![prefix.clone()]);
        let relative = |folder: &Path| {
            folder
                .as_ref()
                .strip_prefix(prefix.as_ref())
                .unwrap_or_default()
                .trim_start_matches('/')
                .to_owned()
        };
        for _ in 0..depth {
            let found = try_join_all(folders.iter().map(|folder| self.remote.list_folder(folder))).await?;
            let inner: Vec<&Path> = found.iter().flat_map(|found| &found.common_prefixes).collect();
            let (reached, others): (Vec<&Path>, Vec<&Path>) =
                inner.into_iter().partition(|folder| glob.may_reach_below(&relative(folder)));
            if reached.len() > MOST_FOLDERS {
                break;
            }
            // A folder may have the name by which tables are recognised, such as `_delta_log`. It is listed,
            // too, so that the table is noticed.
            let signs = others.iter().filter(|folder| folder.filename().is_some_and(tables::is_sign));
            let signs = try_join_all(signs.map(|folder| self.remote.list_folder(folder))).await?;
            listed.passed.extend(others.iter().map(|folder| relative(folder) + "/"));
            folders = reached.into_iter().cloned().collect();
            listed.objects.extend(found.into_iter().chain(signs).flat_map(|found| found.objects));
        }
        let below = try_join_all(folders.iter().map(|folder| self.remote.list(folder))).await?;
        listed.objects.extend(below.into_iter().flatten());
        listed.objects.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    /// Removes hidden files, files in hidden folders, and objects that only mark folders.
    ///
    /// Spark, Hadoop and web consoles mark a folder by an empty object. If its name is `train.parquet/`, the
    /// listing has it as `train.parquet`, because paths here do not end in a slash. So an empty object is
    /// such a mark if there are objects below it, or if the store has no object with exactly this name.
    async fn visible<'s>(&self, seen: Vec<SeenObject<'s>>) -> Result<Vec<SeenObject<'s>>> {
        let paths: Vec<&str> = seen.iter().map(|seen| seen.relative).collect();
        let is_above = |folder: &str| {
            let below = format!("{folder}/");
            let next = paths.partition_point(|path| *path < below.as_str());
            paths.get(next).is_some_and(|path| path.starts_with(&below))
        };
        let is_file = async |seen: &SeenObject<'_>| match seen.meta.size > 0 {
            true => Ok(true),
            false if !has_suffix(seen.name()) || is_above(seen.relative) => Ok(false),
            false => self.remote.is_folder_mark(&seen.meta.location).await.map(|is_mark| !is_mark),
        };
        let mut visible = Vec::with_capacity(seen.len());
        let is_shown = |seen: &SeenObject| !seen.relative.split('/').any(is_hidden);
        for seen in seen.into_iter().filter(is_shown) {
            if is_file(&seen).await? {
                visible.push(seen);
            }
        }
        Ok(visible)
    }

    /// The snapshot of the files that were chosen below a prefix. `listed` are all objects that were found
    /// there.
    fn snapshot(
        &self,
        prefix: &Path,
        glob: Option<&Glob>,
        chosen: &[&SeenObject<'_>],
        listed: &[ObjectMeta],
    ) -> Result<Location> {
        let root = self.remote.shown(prefix.as_ref()).trim_end_matches('/').to_string();
        let mut files: Vec<DataFile> =
            chosen.iter().map(|seen| self.data_file(seen.meta)).collect::<Result<_>>()?;
        note_keys(&mut files, glob, chosen.iter().map(|seen| seen.relative));
        let beside = |name: &str| {
            let path = path(&joined(prefix.as_ref(), name))?;
            let found = listed.iter().find(|meta| meta.location == path).map(Pin::from_meta);
            Ok::<_, Error>((path, found))
        };
        let (path, found) = beside(index::NAME)?;
        let index =
            IndexPlace { root: root.clone(), volume: self.volume, path, found, is_whole: glob.is_none() };
        let (_, common) = beside(COMMON_METADATA)?;
        let common = common.map(|pin| MetadataFile { volume: self.volume, pin });
        Ok(Location::Files(Snapshot {
            root,
            files,
            indexes: vec![index],
            common_metadata: common.into_iter().collect(),
            ..Snapshot::default()
        }))
    }

    /// Fails if a folder is inside the folder of a table, at any depth. Folders that the credentials do not
    /// allow to list are not taken for tables.
    async fn refuse_above(&self, key: &str) -> Result<()> {
        let ancestors: Vec<&str> = match key {
            "" => Vec::new(),
            _ => std::iter::once("").chain(key.match_indices('/').map(|(at, _)| &key[..at])).collect(),
        };
        let signs =
            ancestors.iter().flat_map(|ancestor| tables::of_parquet().map(|format| (*ancestor, format)));
        let looked = try_join_all(signs.map(|(ancestor, format)| self.look(ancestor, format).boxed()));
        match looked.await?.into_iter().flatten().next() {
            Some((ancestor, format)) => {
                Err(tables::refusal(format, Place::file(self.remote.shown(ancestor))))
            }
            None => Ok(()),
        }
    }

    /// The format of the table in a folder, if it is one. Only folders by which tables are recognised are
    /// listed, because the table may have many files.
    async fn table(&self, folder: &str) -> Result<Option<&'static dyn TableFormat>> {
        let looks = tables::of_parquet().map(|format| self.look(folder, format).boxed());
        let looked = try_join_all(looks).await?;
        Ok(looked.into_iter().flatten().next().map(|(_, format)| format))
    }

    /// Returns the folder and the format, if the folder is a table of this format.
    async fn look<'a>(
        &self,
        folder: &'a str,
        format: &'static dyn TableFormat,
    ) -> Result<Option<(&'a str, &'static dyn TableFormat)>> {
        let signs = path(&joined(folder, format.sign().folder))?;
        let files = match self.remote.list_folder(&signs).await {
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => return Ok(None),
            listed => listed?.objects,
        };
        let mut names = files.iter().filter_map(|meta| meta.location.filename());
        Ok(names.any(|name| format.sign().is_file(name)).then_some((folder, format)))
    }

    fn data_file(&self, meta: &ObjectMeta) -> Result<DataFile> {
        file::data_file(self.remote, self.volume, meta)
    }
}

/// The table that is opened by the key of one of its metadata files; `None` for any other key.
fn table_of(key: &str) -> Option<FoundTable> {
    let (format, folder, name) = tables::opened_by(key)?;
    Some(FoundTable { format, root: TableRoot::Key(folder.to_owned()), opened: Some(name.to_owned()) })
}

/// The objects of a listing, with their paths below the prefix.
fn below<'a>(listed: &'a [ObjectMeta], prefix: &Path) -> Vec<SeenObject<'a>> {
    let seen = listed.iter().filter_map(|meta| {
        let relative = meta.location.as_ref().strip_prefix(prefix.as_ref())?.trim_start_matches('/');
        // The object with the name of the prefix itself is not in the folder.
        (!relative.is_empty()).then_some(SeenObject { relative, meta })
    });
    seen.collect()
}
