//! Plots as SVG: marks between two axes. Colours come from the page's style, so that they follow the light or
//! dark theme.

use std::fmt::Write;

use super::axis::Axis;
use super::html::escaped;

/// The size of a plot in its own units; the page scales it to its width.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// The margins around the marks, which hold the numbers and titles of the axes and, above, labels.
const LEFT: f64 = 108.0;
const RIGHT: f64 = 36.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 60.0;
/// The position of the y axis's title, above everything else: upright text would collide with long numbers.
const TITLE_LINE: f64 = 19.0;
/// A horizontal bar that is longer than this share of the width has its label inside.
const MIN_INSIDE_LABEL_SHARE: f64 = 0.6;
/// The gap between two bars.
const GAP: f64 = 1.0;

/// A plot that is being drawn.
pub(super) struct Plot {
    id: &'static str,
    title: String,
    summary: String,
    x: Axis,
    y: Axis,
    marks: String,
}

impl Plot {
    /// An empty plot. `summary` describes it in a sentence for readers who cannot see it.
    pub(super) fn new(id: &'static str, title: &str, summary: String, x: Axis, y: Axis) -> Self {
        Plot { id, title: title.to_owned(), summary, x, y, marks: String::new() }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM),
        )
    }

    /// Adds a mark to the plot.
    fn draw(&mut self, mark: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.marks, "{mark}");
    }

    /// Draws a line through `points`.
    pub(super) fn line(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let path: Vec<String> =
            points.into_iter().map(|(x, y)| self.at(x, y)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.draw(format_args!("<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" ")));
    }

    /// Draws a dot with a tooltip.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        let (x, y) = self.at(x, y);
        let tip = escaped(tip);
        self.draw(format_args!(
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{tip}</title></circle>"
        ));
    }

    /// Draws a vertical bar from the x axis up, with a tooltip.
    pub(super) fn bar(&mut self, class: &str, (from, to): (f64, f64), height: f64, tip: &str) {
        let ((left, top), (right, bottom)) = (self.at(from, height), self.at(to, 0.0));
        let gap = if right - left > 4.0 * GAP { GAP } else { 0.0 };
        let (width, height) = ((right - left - gap).max(0.5), bottom - top);
        let tip = escaped(tip);
        self.draw(format_args!(
            "<rect class=\"bar {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{tip}</title></rect>"
        ));
    }

    /// Draws a horizontal bar from the y axis, with its name at the left and its label at the right.
    pub(super) fn lying_bar(
        &mut self,
        class: &str,
        (from, to): (f64, f64),
        length: f64,
        name: &str,
        label: &str,
    ) {
        let ((left, bottom), (right, top)) = (self.at(0.0, from), self.at(length, to));
        let (width, height, middle) =
            ((right - left).max(1.0), bottom - top - 2.0 * GAP, (top + bottom) / 2.0);
        let (name, label) = (escaped(name), escaped(label));
        let inside = self.x.place(length) > MIN_INSIDE_LABEL_SHARE;
        let (class_of_label, anchor, at) =
            if inside { ("inside", "end", right - 8.0) } else { ("value", "start", right + 8.0) };
        self.draw(format_args!(
            "<rect class=\"bar {class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{middle:.1}\" dy=\"0.35em\" text-anchor=\"end\">{name}</text>\
             <text class=\"{class_of_label}\" x=\"{at:.1}\" y=\"{middle:.1}\" dy=\"0.35em\" \
             text-anchor=\"{anchor}\">{label}</text>",
            top + GAP,
            left - 8.0,
        ));
    }

    /// Draws a vertical line at `x`, labelled above the plot.
    pub(super) fn rule(&mut self, x: f64, label: &str) {
        let (at, top) = self.at(x, f64::INFINITY);
        let label = escaped(label);
        let anchor = if self.x.place(x) > 0.9 { "end" } else { "middle" };
        self.draw(format_args!(
            "<line class=\"rule\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\"/>\
             <text class=\"value\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            HEIGHT - BOTTOM,
            top - 7.0,
        ));
    }

    /// The finished plot as an element of a page.
    pub(super) fn finish(self) -> String {
        let Plot { id, title, summary, x, y, marks } = &self;
        let mut axes = String::new();
        for (value, text) in &y.ticks {
            let (_, at) = self.at(0.0, *value);
            let _ = writeln!(
                axes,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{at:.1}\" dy=\"0.35em\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                escaped(text)
            );
        }
        for (value, text) in &x.ticks {
            let at = LEFT + x.place(*value) * (WIDTH - LEFT - RIGHT);
            let bottom = HEIGHT - BOTTOM;
            let _ = writeln!(
                axes,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 22.0,
                escaped(text)
            );
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        format!(
            "<figure>\n<figcaption>{}</figcaption>\n\
             <svg id=\"{id}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{axes}{marks}\
             <text class=\"axis\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"axis\" x=\"0\" y=\"{TITLE_LINE}\">{}</text>\n\
             </svg>\n<p>{}</p>\n</figure>\n",
            escaped(title),
            escaped(title),
            escaped(summary),
            HEIGHT - 8.0,
            escaped(&x.title),
            escaped(&y.title),
            escaped(summary),
        )
    }
}
