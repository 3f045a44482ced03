//! Reads the lists of denied rows (rows that are never delivered). An argument is `FILE` or `COLUMN=FILE`,
//! with `SOURCE:` before it if several data sets are mixed.

use forebay::Deny;
use forebay_base::{Error, Result};

/// Reads all lists and joins them.
pub(super) fn read_all(lists: &[String]) -> Result<Deny> {
    lists.iter().try_fold(Deny::default(), |all, list| Ok(all.and(read(list)?)))
}

/// Reads the lists for a mix of data sets, and joins the lists of each data set (source).
pub(super) fn read_of_sources(lists: &[String], sources: usize) -> Result<Vec<Deny>> {
    let mut denied = vec![Deny::default(); sources];
    for list in lists {
        let found =
            list.split_once(':').and_then(|(source, list)| Some((source.parse::<usize>().ok()?, list)));
        let wanted = || format!("--deny {list:?} does not name its source");
        let Some((source, of_source)) = found else {
            return Err(Error::invalid(wanted())
                .hint(format!("write --deny 0:{list}, for example; sources are numbered from 0")));
        };
        let Some(all) = denied.get_mut(source) else {
            return Err(Error::invalid(format!(
                "--deny {list:?} names source {source}, but there are {sources}"
            ))
            .hint("sources are numbered from 0"));
        };
        *all = std::mem::take(all).and(read(of_source)?);
    }
    Ok(denied)
}

/// Reads one list: `FILE` holds row ids, and `COLUMN=FILE` holds values of that column.
fn read(list: &str) -> Result<Deny> {
    match list.split_once('=') {
        Some((column, file)) if !column.contains('/') => Deny::read_values(column, file),
        _ => Deny::read(list),
    }
}
