//! Finds the files of an object store.

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

/// The number of pages of a list that are read before the folders of a glob are listed one by one.
const FLAT_PAGES: usize = 4;

/// The most folders of one depth that are listed one by one.
const MOST_FOLDERS: usize = 32;

/// The files of a key, a prefix or a glob, by the first of its meanings for which there is anything.
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

/// The file of a key in a store that cannot list. Its size and version come with its last bytes.
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
            // The name of a file can have wildcards; a glob was meant only if no file has this name.
            Err(error) if error.kind() == ErrorKind::NotFound && key.contains(WILDCARDS) => Err(no_list()),
            found => found,
        },
    };
    found.map_err(|error| error.at(Place::file(remote.shown(key))))
}

/// The objects below a prefix that a glob may match, ordered by path.
#[derive(Default)]
struct Listed {
    objects: Vec<ObjectMeta>,
    /// Folders that the glob does not reach into, as paths below the prefix that end in `/`.
    passed: Vec<String>,
}

/// A store that is being searched.
struct Here<'a> {
    remote: &'a Remote,
    volume: usize,
}

/// A file below the folder that was listed.
struct SeenObject<'a> {
    /// Its path below the folder, with `/` between names.
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
        // A name that exists is taken literally, whatever characters it has.
        match self.file(&meaning.key).await {
            Ok(Some(file)) => return Ok(Location::Files(file)),
            // Credentials that may list may not be allowed to look up a missing object.
            Err(error) if error.kind() != ErrorKind::Denied => return Err(error),
            _ => {}
        }
        match self.matching(glob).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.folder(&meaning.key).await.map_err(|literally| match literally.kind() {
                    // The credentials may not be allowed to list below a missing name either.
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

    /// The object with exactly this key, if there is one and it does not mark a folder.
    async fn file(&self, key: &str) -> Result<Option<Snapshot>> {
        if key.is_empty() || key.ends_with('/') {
            return Ok(None);
        }
        let file = self.remote.head(&path(key)?).await?;
        // Some tools mark a folder with an empty object of its name.
        let is_mark = match &file {
            Some(meta) if meta.size == 0 => !has_suffix(key) || self.marks_a_folder(&meta.location).await?,
            _ => false,
        };
        let file = file.filter(|_| !is_mark);
        file.map(|meta| self.data_file(&meta).map(Snapshot::of_file)).transpose()
    }

    /// Whether the empty object at a path marks a folder.
    async fn marks_a_folder(&self, path: &Path) -> Result<bool> {
        let below = self.remote.list_folder(path).await?;
        let is_inside = |meta: &ObjectMeta| meta.location != *path;
        Ok(!below.common_prefixes.is_empty()
            || below.objects.iter().any(is_inside)
            || self.remote.is_folder_mark(path).await?)
    }

    /// The Parquet files below a prefix, or the table that it is.
    async fn folder(&self, key: &str) -> Result<Location> {
        let is_folder = key.is_empty() || key.ends_with('/');
        let key = key.trim_end_matches('/');
        let prefix = path(key)?;
        let (few, ()) =
            futures::try_join!(self.remote.list_at_most(&prefix, FLAT_PAGES), self.refuse_above(key))?;
        let listed = match few {
            Some(few) => few,
            // If the folder is a table, the files come from its own list, not from a longer listing.
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

    /// The files that a glob reaches: those that it matches, and the Parquet files of folders that it
    /// matches.
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
        // A table beside the matched files does not matter.
        let within =
            tables.iter().find(|(folder, _)| chosen.iter().any(|seen| seen.relative.starts_with(folder)));
        if let Some((folder, format)) = within {
            let shown = self.remote.shown(&joined(prefix.as_ref(), folder.trim_end_matches('/')));
            return Err(tables::refusal(*format, Place::file(shown)));
        }
        self.refuse_above(base).await?;
        self.snapshot(&prefix, Some(glob), &chosen, &objects)
    }

    /// The objects below a prefix that a glob may match, perhaps with others: all that is below the prefix,
    /// if that is not much.
    ///
    /// A page of a list has a thousand objects, and listing each folder takes a request. So folders are
    /// listed one by one only if everything below the prefix takes many pages, and only if the glob may reach
    /// into few. A pattern without a folder needs the whole list in any case.
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
            // Folders with the name of a sign are listed, to see whether there is a table.
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

    /// Leaves out hidden files, files in hidden folders, and the objects that mark folders.
    ///
    /// Spark, Hadoop and consoles mark a folder with an empty object. If that is called `train.parquet/`, the
    /// list has it as `train.parquet`, because paths do not end in a slash. So it marks a folder if there is
    /// anything below it, or if there is no object of that name.
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

    /// The files that were chosen below a prefix, among all that were `listed`.
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

    /// Refuses a folder inside a table, at any depth. Folders that may not be listed do not count as tables.
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

    /// The format of the table in a folder, which may have many files.
    async fn table(&self, folder: &str) -> Result<Option<&'static dyn TableFormat>> {
        let looks = tables::of_parquet().map(|format| self.look(folder, format).boxed());
        let looked = try_join_all(looks).await?;
        Ok(looked.into_iter().flatten().next().map(|(_, format)| format))
    }

    /// The folder, if it contains a table of this format.
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

/// The table that is opened by the file of a key, if there is one.
fn table_of(key: &str) -> Option<FoundTable> {
    let (format, folder, name) = tables::opened_by(key)?;
    Some(FoundTable { format, root: TableRoot::Key(folder.to_owned()), opened: Some(name.to_owned()) })
}

/// The files of a listing below its prefix.
fn below<'a>(listed: &'a [ObjectMeta], prefix: &Path) -> Vec<SeenObject<'a>> {
    let seen = listed.iter().filter_map(|meta| {
        let relative = meta.location.as_ref().strip_prefix(prefix.as_ref())?.trim_start_matches('/');
        // The prefix itself, and the objects that mark folders, are not files in it.
        (!relative.is_empty()).then_some(SeenObject { relative, meta })
    });
    seen.collect()
}
