//! Finds the files of all locations of a data set.

use forebay_base::{Error, ErrorKind, Place, Result};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::location::{FoundTable, Location};
use super::{local, remote, splits};
use crate::snapshot::{AsOf, Snapshot, WantedVersions};
use crate::source::clouds::Meaning;
use crate::source::store::{Store, Volume};
use crate::source::tables::TableFolder;
use crate::source::url::Target;

/// The number of locations that are searched at a time.
const AT_ONCE: usize = 32;

/// Finds the files of all targets (parsed locations). Each target comes with the index of the volume that it
/// is in.
///
/// Fails with `Invalid` if a version is given for a location that is not a table.
pub(in crate::source) async fn find(
    store: &Store,
    targets: Vec<(usize, Target)>,
    versions: &WantedVersions,
) -> Result<Snapshot> {
    let finds = targets.into_iter().map(|(volume, target)| {
        async move { snapshot(store, volume, located(store, volume, target).await?, versions).await }.boxed()
    });
    let all = Snapshot::union(stream::iter(finds).buffered(AT_ONCE).try_collect().await?)?;
    store.blocking(move || local::refuse_twins(&all.files).map(|()| all)).await
}

/// The newest version of the table at a target (a parsed location); `None` if the target has plain files.
pub(in crate::source) async fn newest_version(
    store: &Store,
    volume: usize,
    target: Target,
) -> Result<Option<u64>> {
    match located(store, volume, target).await? {
        Location::Files(_) => Ok(None),
        Location::Table(FoundTable { format, root, opened }) => {
            let folder = TableFolder { store, volume, root, as_of: AsOf::Newest, opened };
            format.newest(&folder).await.map(Some)
        }
    }
}

async fn located(store: &Store, volume: usize, target: Target) -> Result<Location> {
    match (store.volume(volume)?, target) {
        (Volume::Remote(remote), Target::Remote(address)) => match address.lists() {
            true => remote::find(remote, volume, &address.meanings()).await,
            false => remote::find_alone(remote, volume, address.key()).await,
        },
        (_, target) => store.blocking(move || local::find(&target, volume)).await,
    }
}

/// Finds the files below a prefix, in a store whose client the user provided.
pub(in crate::source) async fn find_in(store: &Store, volume: usize, key: &str) -> Result<Snapshot> {
    let Volume::Remote(remote) = store.volume(volume)? else {
        return Err(Error::new(ErrorKind::Internal, "the volume is not a store"));
    };
    let location = remote::find(remote, volume, &[Meaning::for_key(key)]).await?;
    Snapshot::union(vec![snapshot(store, volume, location, &WantedVersions::default()).await?])
}

async fn snapshot(
    store: &Store,
    volume: usize,
    location: Location,
    versions: &WantedVersions,
) -> Result<Snapshot> {
    match location {
        Location::Files(snapshot) if versions.as_of != AsOf::Newest => {
            Err(Error::invalid("this is not a table, and has no versions")
                .at(Place::file(snapshot.root))
                .hint("open it without `version` and `timestamp`"))
        }
        Location::Files(mut snapshot) => {
            let paths = snapshot.files.iter().filter_map(|file| file.whole.strip_prefix(&*snapshot.root));
            let paths = paths.map(|path| path.trim_start_matches('/'));
            snapshot.splits = splits::several(&snapshot.root, paths).into_iter().collect();
            Ok(snapshot)
        }
        Location::Table(FoundTable { format, root, opened }) => {
            let as_of = versions.at(&super::location(store, volume, &root)?);
            format.snapshot(&TableFolder { store, volume, root, as_of, opened }).await
        }
    }
}
