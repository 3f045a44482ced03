//! `--report`: the HTML page of a run. With `--against`, its plots also show an earlier run.

mod figures;
mod plots;

use forebay_base::{Error, ErrorKind, Result};
use serde_json::Value;

use super::against::Before;
use super::drawn::Drawn;
use super::report::BenchReport;
use crate::machine;
use crate::page::{self, Against, HtmlPage};

/// Renders the page of `report`. If there is an earlier run, both runs are drawn in the same plots.
pub(super) fn render(report: &BenchReport, before: Option<&Before>) -> Result<String> {
    let value = value(report)?;
    let json = serde_json::to_string_pretty(&value).map_err(failed)?;
    let drawn = Drawn::read(&value).map_err(failed)?;
    let earlier = before.map(|before| &before.drawn);
    let plots = [
        plots::over_time(&drawn, earlier),
        page::latencies(&drawn.latencies(), earlier.map(Drawn::latencies).as_ref()),
        Some(page::stages(&drawn.work(), earlier.map(Drawn::work).as_ref())),
        plots::epochs(&drawn),
        plots::threads(&drawn),
    ];
    let mut badges = badges(report);
    badges.extend(before.into_iter().flat_map(|before| before.differences(&value)));
    let against = before.map(|before| Against { name: &before.name, report: &before.report });
    let verdict = match &report.workload {
        Some(held) => format!("{held}. {}", report.bottleneck),
        None => report.bottleneck.clone(),
    };
    let page = HtmlPage {
        brand: "forebay bench".to_owned(),
        version: report.version.to_owned(),
        title: report.locations.join(", "),
        badges,
        verdict,
        is_calm: report.is_fed(),
        head: page::head(&value, figures::HEAD, against),
        plots: plots.into_iter().flatten().collect(),
        table: page::all(&value, &figures::groups(&value), against),
        note: host(report),
        json,
    };
    Ok(page.render())
}

/// The report as JSON.
pub(super) fn value(report: &BenchReport) -> Result<Value> {
    serde_json::to_value(report).map_err(failed)
}

fn failed(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("cannot write JSON: {error}"))
}

/// Remarks on how far the figures can be trusted.
fn badges(report: &BenchReport) -> Vec<String> {
    let busy = report.busy_others().map(|cores| {
        format!("busy machine: other programs kept {cores:.1} processors busy, so repeat this on a quiet one")
    });
    let short = report.too_short.then(|| {
        "short run: the wait for the first batch is a large part of it, so its rates are those of a start"
            .to_owned()
    });
    [machine::unoptimised(), busy, short].into_iter().flatten().collect()
}

/// Describes the machine of the run, because the figures depend on it.
fn host(report: &BenchReport) -> String {
    let processors = machine::processors() as usize;
    let other = match report.others_cores {
        Some(cores) => format!(", of which other programs kept {cores:.1} busy"),
        None => String::new(),
    };
    format!("Measured on {processors} processors{other}; caches of the system were as they were found.")
}
