//! Renders the page of a training run.

use forebay_base::{Error, ErrorKind, Result};

use super::plots::{self, RunCourse};
use super::summary::Summary;
use super::{Collected, RankReport, figures};
use crate::page::{self, HtmlPage};

/// Renders the page of all reports in `found`. `own` is the report of the rank that makes the page.
pub(super) fn render(found: Collected, own: &RankReport) -> Result<String> {
    let mut summary = Summary::new(found.ranks);
    let course = RunCourse::from_summary(&summary);
    let plots = [
        course.as_ref().map(RunCourse::utilisation),
        course.as_ref().and_then(RunCourse::waits),
        course.as_ref().and_then(RunCourse::rates),
        page::latencies(&plots::calls(&summary), None),
        Some(page::stages(&plots::work(&summary), None)),
    ];
    summary.shorten();
    let failed = |error| Error::new(ErrorKind::Internal, format!("cannot write JSON: {error}"));
    let value = serde_json::to_value(&summary).map_err(failed)?;
    let short = summary.too_short.then(|| {
        "short run: the wait for the first batch is a large part of it, so its rates are those of a start"
            .to_owned()
    });
    let partial = (summary.reported < u64::from(summary.world))
        .then(|| format!("{} of {} ranks have written their report", summary.reported, summary.world));
    let badges = [own.unoptimised.clone(), short, partial].into_iter().flatten().chain(found.left_out);
    let page = HtmlPage {
        brand: "forebay".to_owned(),
        version: own.version.clone(),
        title: summary.locations.join(", "),
        badges: badges.collect(),
        verdict: summary.verdict.to_string(),
        is_calm: summary.is_fed(),
        head: page::head(&value, figures::HEAD, None),
        plots: plots.into_iter().flatten().collect(),
        table: page::all(&value, &figures::groups(&summary), None),
        note: "Percentiles of next() are those of the rank that fared worst; memory is that of the whole process."
            .to_owned(),
        json: serde_json::to_string(&value).map_err(failed)?,
    };
    Ok(page.render())
}
