//! `--report`: a self-contained page of HTML. It has no scripts and loads nothing: its plots are SVG that is
//! made here, and its element `report` holds the whole report as JSON.
//!
//! The plots are not made by `plotters`, which writes colours into its SVG: here, colours follow the light or
//! dark theme of the page.

mod axis;
mod figures;
mod html;
mod plots;
mod svg;

use forebay_base::{Error, ErrorKind, Result};

use self::html::{escaped, script_safe};
use super::report::BenchReport;

const STYLE: &str = include_str!("page/style.css");

/// Renders the page of `report`.
pub(super) fn render(report: &BenchReport) -> Result<String> {
    let failed = |error| Error::new(ErrorKind::Internal, format!("cannot write JSON: {error}"));
    let value = serde_json::to_value(report).map_err(failed)?;
    let json = serde_json::to_string_pretty(&value).map_err(failed)?;
    let plots: String = [
        plots::over_time(report),
        plots::latencies(report),
        Some(plots::stages(report)),
        plots::epochs(report),
        plots::threads(report),
    ]
    .into_iter()
    .flatten()
    .collect();
    let what = report.locations.join(", ");
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>forebay bench: {what}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<p class=\"brand\">forebay bench <span>{version}</span></p>\n<h1>{what}</h1>\n\
         <p class=\"verdict\">{verdict}</p>\n</header>\n{head}<section class=\"plots\" aria-label=\"Plots\">\n\
         {plots}</section>\n<section aria-label=\"Figures\">\n{table}</section>\n\
         <footer><p>The same figures are in this page as JSON, in the element with the id <code>report</code>. \
         {host}</p></footer>\n</main>\n\
         <script type=\"application/json\" id=\"report\">\n{json}\n</script>\n</body>\n</html>\n",
        what = escaped(&what),
        version = escaped(report.version),
        verdict = match &report.workload {
            Some(held) => escaped(&format!("{held}. {}", report.bottleneck)),
            None => escaped(&report.bottleneck),
        },
        head = figures::head(&value),
        table = figures::table(&value),
        host = escaped(&host(report)),
        json = script_safe(&json),
    ))
}

/// The machine of the run, as far as figures depend on it.
fn host(report: &BenchReport) -> String {
    let processors = crate::machine::processors() as usize;
    let other = match report.others_cores {
        Some(cores) => format!(", of which other programs kept {cores:.1} busy"),
        None => String::new(),
    };
    format!("Measured on {processors} processors{other}; caches of the system were as they were found.")
}
