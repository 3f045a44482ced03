//! The figures of a report as a table. Each figure is taken from the JSON by its path, so that the page and
//! the JSON cannot differ.

use std::fmt::Write;

use serde_json::Value;

use super::html::escaped;

/// Formats a figure for people.
pub(crate) type Say = fn(f64) -> String;
/// The label of a figure, its path in the JSON, and its format.
pub(crate) type Figure = (&'static str, &'static str, Say);

/// Figures under one heading. A figure that a run does not have is left out.
pub(crate) struct Group {
    pub(crate) heading: String,
    /// The label of each figure, its path in the JSON, and its format.
    pub(crate) figures: Vec<(String, String, Say)>,
}

/// An earlier run to compare this run with.
#[derive(Clone, Copy)]
pub(crate) struct Against<'a> {
    /// The name of the earlier report's file.
    pub(crate) name: &'a str,
    pub(crate) report: &'a Value,
}

impl Group {
    pub(crate) fn new(heading: &str, figures: &[Figure]) -> Self {
        let figures = figures.iter().map(|(name, at, say)| ((*name).to_owned(), (*at).to_owned(), *say));
        Group { heading: heading.to_owned(), figures: figures.collect() }
    }
}

pub(crate) mod formats {
    //! Formats of figures.

    use crate::units::{bytes, count, seconds};

    pub(crate) fn whole(value: f64) -> String {
        count(value.round() as u64)
    }

    pub(crate) fn plain(value: f64) -> String {
        value.to_string()
    }

    pub(crate) fn size(value: f64) -> String {
        bytes(value as u64)
    }

    pub(crate) fn millis(value: f64) -> String {
        seconds(value / 1e3)
    }

    pub(crate) fn ratio(value: f64) -> String {
        format!("{value:.2}")
    }
}

/// Renders the most important figures in large type, each with its value in an earlier run below it.
pub(crate) fn head(report: &Value, figures: &[Figure], against: Option<Against<'_>>) -> String {
    let mut cards = String::from("<dl class=\"head\">\n");
    for (name, at, say) in figures {
        let Some(shown) = shown(report, at, *say) else { continue };
        let before = against.and_then(|before| Some(escaped(&say(number(before.report, at)?))));
        let before =
            before.map_or(String::new(), |before| format!("<dd class=\"before\">before: {before}</dd>"));
        let _ = writeln!(cards, "<div><dt>{}</dt><dd>{shown}</dd>{before}</div>", escaped(name));
    }
    cards + "</dl>\n"
}

/// Renders the table of all figures. With an earlier run, each row also has the earlier value and the ratio.
pub(crate) fn all(report: &Value, groups: &[Group], against: Option<Against<'_>>) -> String {
    let mut table = String::from("<div class=\"wide\"><table>\n<caption>All figures</caption>\n");
    if let Some(before) = against {
        let _ = writeln!(
            table,
            "<thead><tr><th scope=\"col\"></th><th scope=\"col\">{}</th><th scope=\"col\">this run</th>\
             <th scope=\"col\">ratio</th></tr></thead>",
            escaped(before.name)
        );
    }
    let columns = if against.is_some() { 4 } else { 2 };
    for Group { heading, figures } in groups {
        let mut rows = String::new();
        for (name, at, say) in figures {
            let now = shown(report, at, *say);
            let before = against.and_then(|before| number(before.report, at));
            if now.is_none() && before.is_none() {
                continue;
            }
            let ratio = number(report, at).zip(before).filter(|(_, before)| *before != 0.0);
            let ratio = ratio.map_or(String::new(), |(now, before)| format!("{:.2}", now / before));
            let before = before.map_or(String::new(), |before| escaped(&say(before)));
            let (before, ratio) = match against {
                Some(_) => (format!("<td>{before}</td>"), format!("<td>{ratio}</td>")),
                None => (String::new(), String::new()),
            };
            let (name, now) = (escaped(name), now.unwrap_or_default());
            let _ = writeln!(rows, "<tr><th scope=\"row\">{name}</th>{before}<td>{now}</td>{ratio}</tr>");
        }
        if !rows.is_empty() {
            let heading = escaped(heading);
            let _ = writeln!(
                table,
                "<tbody>\n<tr><th colspan=\"{columns}\" scope=\"rowgroup\">{heading}</th></tr>\n{rows}</tbody>"
            );
        }
    }
    table + "</table></div>\n"
}

fn number(report: &Value, at: &str) -> Option<f64> {
    report.pointer(at)?.as_f64()
}

/// Renders the figure at the JSON path `at` as a `<data>` element: rounded text to read, and the exact value
/// in an attribute for programs.
fn shown(report: &Value, at: &str, say: Say) -> Option<String> {
    let value = report.pointer(at).filter(|value| value.is_number())?;
    Some(format!("<data value=\"{value}\" data-field=\"{at}\">{}</data>", escaped(&say(value.as_f64()?))))
}

#[cfg(test)]
mod tests {
    use super::formats::{millis, whole};
    use super::*;

    const FIGURES: &[Figure] = &[
        ("Rows", "/rows", whole),
        ("next() p99.9", "/next_ms/p99.9", millis),
        ("Margin", "/a/margin", whole),
    ];

    #[test]
    fn figures_are_those_of_the_json_and_what_is_absent_is_left_out() {
        let report = serde_json::json!({ "rows": 12_345, "a": null, "next_ms": { "p99.9": 0.25 } });
        let groups = [Group::new("Run", FIGURES), Group::new("None", &FIGURES[2..])];
        let table = all(&report, &groups, None);
        assert!(table.contains("<data value=\"12345\" data-field=\"/rows\">12,345</data>"), "{table}");
        assert!(table.contains("<data value=\"0.25\" data-field=\"/next_ms/p99.9\">250.0 µs</data>"));
        assert!(!table.contains("Margin") && !table.contains("None"), "{table}");
        let head = head(&report, FIGURES, None);
        assert!(head.contains("12,345") && !head.contains("Margin"), "{head}");
    }

    #[test]
    fn an_earlier_run_is_beside_with_the_ratio() {
        let (now, before) = (serde_json::json!({ "rows": 300 }), serde_json::json!({ "rows": 200 }));
        let before = Some(Against { name: "before.json", report: &before });
        let table = all(&now, &[Group::new("Run", FIGURES)], before);
        assert!(table.contains("<th scope=\"col\">before.json</th>"), "{table}");
        assert!(table.contains("<td>200</td><td><data value=\"300\""), "{table}");
        assert!(table.contains("<td>1.50</td>"), "{table}");
        assert!(head(&now, FIGURES, before).contains("before: 200"));
    }
}
