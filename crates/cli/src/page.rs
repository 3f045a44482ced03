//! Pages of HTML about a run: a verdict, figures, plots and the whole report as JSON. A page has no scripts
//! and loads nothing.
//!
//! The plots are not made by `plotters`, which writes colours into its SVG: here, colours follow the light or
//! dark theme of the page.

mod axis;
mod figures;
mod html;
mod plots;
mod svg;

use std::fmt::Write;

pub(crate) use self::axis::Axis;
pub(crate) use self::figures::{Against, Figure, Group, Say, all, formats, head};
pub(crate) use self::html::{escaped, script_safe};
pub(crate) use self::plots::{Calls, Latencies, StageTimes, latencies, rate, rows_axis, stages, stairs};
pub(crate) use self::svg::Plot;

const STYLE: &str = include_str!("page/style.css");

/// The element by which a page of this program is recognised.
const MARK: &str = "<meta name=\"generator\" content=\"forebay\">";
/// The opening tag of the script element that holds the report as JSON.
const JSON: &str = "<script type=\"application/json\" id=\"report\">";
const JSON_END: &str = "</script>";

/// The contents of a page. `render` escapes all texts except those that are HTML already.
pub(crate) struct HtmlPage {
    /// The command or function that made the page.
    pub(crate) brand: String,
    pub(crate) version: String,
    /// The location of the run's data.
    pub(crate) title: String,
    /// Short remarks at the top that say how far the figures can be trusted.
    pub(crate) badges: Vec<String>,
    pub(crate) verdict: String,
    /// Whether the verdict found nothing to improve, so that the page shows it in a calm colour.
    pub(crate) is_calm: bool,
    /// The most important figures, as HTML.
    pub(crate) head: String,
    /// Each plot as HTML.
    pub(crate) plots: Vec<String>,
    /// The table of all figures, as HTML.
    pub(crate) table: String,
    /// A sentence about the run at the end of the page.
    pub(crate) note: String,
    /// The whole report as JSON, which the page embeds for programs.
    pub(crate) json: String,
}

impl HtmlPage {
    pub(crate) fn render(&self) -> String {
        let mut badges = String::new();
        for badge in &self.badges {
            // Writing to a string does not fail.
            let _ = writeln!(badges, "<li>{}</li>", escaped(badge));
        }
        if !badges.is_empty() {
            badges = format!("<ul class=\"badges\">\n{badges}</ul>\n");
        }
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{MARK}\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{brand}: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<p class=\"brand\">{brand} <span>{version}</span></p>\n<h1>{title}</h1>\n{badges}\
             <p class=\"verdict{calm}\">{verdict}</p>\n</header>\n{head}<section class=\"plots\" aria-label=\"Plots\">\n\
             {plots}</section>\n<section aria-label=\"Figures\">\n{table}</section>\n\
             <footer><p>The same figures are in this page as JSON, in the element with the id <code>report</code>. \
             {note}</p></footer>\n</main>\n{JSON}\n{json}\n{JSON_END}\n</body>\n</html>\n",
            brand = escaped(&self.brand),
            version = escaped(&self.version),
            title = escaped(&self.title),
            calm = if self.is_calm { " calm" } else { "" },
            verdict = escaped(&self.verdict),
            head = self.head,
            plots = self.plots.concat(),
            table = self.table,
            note = escaped(&self.note),
            json = script_safe(&self.json),
        )
    }
}

/// Whether a text is a page that this program rendered; only such a file may be replaced.
pub(crate) fn is_page(text: &str) -> bool {
    text.starts_with("<!doctype html>") && text.contains(MARK)
}

/// Returns the report that a page embeds as JSON.
pub(crate) fn json_of(page: &str) -> Option<&str> {
    Some(page.split_once(JSON)?.1.split_once(JSON_END)?.0)
}
