//! Reads the footers of a data set's files in parallel when it is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use forebay_base::promise::Promise;
use forebay_base::{Error, Result};
use futures::{FutureExt, StreamExt, stream};

use super::assemble::Opened;
use super::claims;
use super::fetch::{IF_DAMAGED, fetch};
use super::kept::{KeptFooter, KeptFooters};
use super::limits::FOOTERS_AT_ONCE;
use super::parse::{Parsed, on_runtime, parse};
use crate::catalog::{Footer, KnownClasses, KnownColumns};
use crate::snapshot::DataFile;
use crate::source::index::Packing;
use crate::source::list::{FileFilter, KeyTypes, none_kept, settle};
use crate::source::metadata_cache;
use crate::source::store::Store;

/// The memory in bytes that is reserved for the few footers that are being parsed at a time, in addition to
/// the parts of footers that are kept.
const MEMORY_WHILE_READ: u64 = 8 << 20;

/// Makes the keys in the names of folders (`key=value`) constants of the files, and returns the files that
/// pass a filter on them. Reads the footer of the first file, because a key that is also a column of the
/// files is not used.
pub(in crate::source) async fn kept_files(
    store: &Store,
    kept: &KeptFooters,
    mut files: Vec<DataFile>,
    filter: &FileFilter,
    types: &KeyTypes,
) -> Result<Vec<DataFile>> {
    let first: Vec<DataFile> = files.first().cloned().into_iter().collect();
    let first = read_all(store, kept, first, &Arc::new(KnownColumns::default()), None).await?;
    let stored = first.iter().find_map(|first| Some(first.footer.as_ref()?.columns.schema.clone()));
    settle(files.iter_mut(), types, |key| {
        stored.as_ref().is_some_and(|stored| stored.column_with_name(key).is_some())
    })?;
    files.retain(|file| file.constants.is_empty() || (filter.keeps)(&file.listed()));
    match files.is_empty() {
        true => Err(none_kept()),
        false => Ok(files),
    }
}

/// Reads the footers of files in parallel. A footer is not read if a table declares the rows and columns of
/// its file. If footers cannot be read, the error is that of the first of these files. Footers are also added
/// to `packing`, if they are to be handed on to other processes.
pub(in crate::source) async fn read_all(
    store: &Store,
    kept: &KeptFooters,
    files: Vec<DataFile>,
    known: &Arc<KnownColumns>,
    mut packing: Option<&mut Packing>,
) -> Result<Vec<Opened>> {
    let _promise = Promise::new(MEMORY_WHILE_READ);
    let read_now = || files.iter().filter(|file| !file.is_declared());
    let is_packed = packing.is_some();
    let mut renewal = kept.renew(read_now().map(|file| (&*file.whole, &file.pin)));
    let at_once = FOOTERS_AT_ONCE.max(store.row_groups_at_once());
    let mut opened: Vec<Option<Opened>> = files.iter().map(|_| None).collect();
    let classes = Arc::new(KnownClasses::default());
    // After a failure, no more reads are started.
    let has_failed = AtomicBool::new(false);
    let asked_for = files.into_iter().enumerate().take_while(|_| !has_failed.load(Relaxed));
    let reads = asked_for.map(|(at, mut file)| {
        let key = metadata_cache::key(&file.whole, &file.pin);
        let found = kept.get(&file.whole, &file.pin);
        let is_for_cache = KeptFooter::is_for_cache(found.as_ref());
        let is_wanted = is_packed || is_for_cache;
        let (known, classes, tail) = (known.clone(), classes.clone(), file.tail.take());
        async move {
            if file.is_declared() {
                let bytes = found.filter(|_| is_for_cache).map(|kept| kept.bytes);
                return Ok((
                    Opened { file, footer: None, key_values: None, classes: None },
                    key,
                    is_for_cache,
                    bytes,
                ));
            }
            let place = file.place();
            let read = async {
                let size = file.pin.size;
                let parsed = |bytes: Bytes| {
                    let (known, names, file) = (known.clone(), file.names.clone(), &file);
                    let classes = classes.clone();
                    async move {
                        let Parsed { hash, metadata, columns } =
                            on_runtime(move || parse(&bytes, size, &known, names.as_deref())).await?;
                        let metadata = claims::with_sizes(store, file.volume, &file.pin, metadata).await?;
                        on_runtime(move || {
                            let all = metadata.file_metadata().key_value_metadata();
                            let pairs = all.into_iter().flatten();
                            let pairs = pairs.filter_map(|pair| Some((&*pair.key, pair.value.as_deref()?)));
                            let about = (all.filter(|_| at == 0).cloned(), classes.of(pairs));
                            Ok((Footer::new(hash, columns, &metadata)?, about))
                        })
                        .await
                    }
                };
                // If a footer from the cache or an index is damaged, it is read from the file.
                let sound = match found {
                    Some(kept) => parsed(kept.bytes.clone()).await.ok().map(|footer| (kept.bytes, footer)),
                    None => None,
                };
                let (bytes, (footer, (key_values, classes))) = match sound {
                    Some(sound) => sound,
                    None => {
                        let (bytes, _permit) = fetch(store, file.volume, &file.pin, tail).await?;
                        (bytes.clone(), parsed(bytes).await?)
                    }
                };
                let opened = Opened { file, footer: Some(footer), key_values, classes };
                Ok((opened, key, is_for_cache, is_wanted.then_some(bytes)))
            };
            read.await.map_err(|error: Error| error.at(place).hint_if_damaged(IF_DAMAGED))
        }
        .map(move |read| (at, read))
        .boxed()
    });
    // Footers are taken in the order in which they arrive, so that a slow one does not delay the others.
    let mut reads = stream::iter(reads).buffer_unordered(at_once);
    let mut failed: Option<(usize, Error)> = None;
    while let Some((at, read)) = reads.next().await {
        match read {
            Ok((file, key, is_for_cache, bytes)) => {
                if let Some((renewal, bytes)) = renewal.as_mut().zip(bytes.as_ref().filter(|_| is_for_cache))
                {
                    renewal.add(key, bytes);
                }
                if let Some((packing, bytes)) = packing.as_mut().zip(bytes.filter(|_| file.footer.is_some()))
                {
                    packing.add(&file.file.whole, &file.file.pin, bytes)?;
                }
                opened[at] = Some(file);
            }
            Err(error) if failed.as_ref().is_none_or(|(first, _)| at < *first) => failed = Some((at, error)),
            Err(_) => {}
        }
        if let Some((first, _)) = &failed {
            has_failed.store(true, Relaxed);
            if opened[..*first].iter().all(Option::is_some) {
                break;
            }
        }
    }
    kept.warn_of_damage(store);
    if let Some((_, error)) = failed {
        return Err(error);
    }
    if let Some(renewal) = renewal {
        renewal.keep();
    }
    // Dropping `reads` frees the list of files, and the returned list reuses the memory of `opened`, so
    // memory never holds another list of this length.
    drop(reads);
    Ok(opened.into_iter().map_while(|file| file).collect())
}
