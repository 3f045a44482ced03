//! Plots as SVG: marks between two axes. Colours come from the page's style, so that they follow the light or
//! dark theme.

use std::fmt::Write;

use super::axis::Axis;
use super::html::escaped;

/// The width and height of a plot in SVG units; a page scales the plot to fill the page's width. On a page
/// 420 pixels wide, the plot is about 370 pixels wide and its texts are still readable.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 310.0;
/// The height of a horizontal bar, which is enough for the texts in it.
const LYING_BAR: f64 = 28.0;
/// The margins around the plotted marks. They hold the numbers and titles of the axes, and the upper margin
/// also holds labels.
const LEFT: f64 = 112.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 62.0;
/// The vertical position of the y axis's title. The title stands above the plot, because text rotated beside
/// the axis would collide with long numbers.
const TITLE_LINE: f64 = 19.0;
/// A horizontal bar that is longer than this share of the width has its label inside.
const MIN_INSIDE_LABEL_SHARE: f64 = 0.52;
/// The gap between two bars.
const GAP: f64 = 1.0;

/// A plot that is being drawn.
pub(crate) struct Plot {
    id: &'static str,
    title: String,
    summary: String,
    x: Axis,
    y: Axis,
    height: f64,
    marks: String,
    /// The CSS class of each kind of mark, and its meaning.
    legend: Vec<(String, String)>,
}

impl Plot {
    /// An empty plot. `summary` describes it in a sentence for readers who cannot see it.
    pub(crate) fn new(id: &'static str, title: &str, summary: String, x: Axis, y: Axis) -> Self {
        Plot {
            id,
            title: title.to_owned(),
            summary,
            x,
            y,
            height: HEIGHT,
            marks: String::new(),
            legend: Vec::new(),
        }
    }

    /// A plot with room for `bars` horizontal bars.
    pub(crate) fn with_lying_bars(mut self, bars: usize) -> Self {
        self.height = TOP + BOTTOM + bars as f64 * LYING_BAR;
        self
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT),
            self.height - BOTTOM - self.y.place(y) * (self.height - TOP - BOTTOM),
        )
    }

    /// The position of `x` along its axis, from 0 to 1.
    pub(crate) fn place(&self, x: f64) -> f64 {
        self.x.place(x)
    }

    /// Adds entries to the legend: the CSS class of a kind of mark, and its meaning.
    pub(crate) fn legend<T: Into<String>>(&mut self, meanings: impl IntoIterator<Item = (T, T)>) {
        self.legend.extend(meanings.into_iter().map(|(class, meaning)| (class.into(), meaning.into())));
    }

    fn draw(&mut self, mark: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.marks, "{mark}");
    }

    /// Draws a line through `points`.
    pub(crate) fn line(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let path: Vec<String> =
            points.into_iter().map(|(x, y)| self.at(x, y)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.draw(format_args!("<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" ")));
    }

    /// Fills the area between two lines, whose points have the same x values. `tip` is its tooltip.
    pub(crate) fn area(&mut self, class: &str, lower: &[(f64, f64)], upper: &[(f64, f64)], tip: &str) {
        let points = upper.iter().chain(lower.iter().rev()).map(|(x, y)| self.at(*x, *y));
        let path: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (path, tip) = (path.join(" "), escaped(tip));
        self.draw(format_args!(
            "<polygon class=\"bar {class}\" points=\"{path}\"><title>{tip}</title></polygon>"
        ));
    }

    /// Draws a dot with a tooltip.
    pub(crate) fn dot(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        let (x, y) = self.at(x, y);
        let tip = escaped(tip);
        self.draw(format_args!(
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{tip}</title></circle>"
        ));
    }

    /// Draws a vertical bar from the x axis up, with a tooltip.
    pub(crate) fn bar(&mut self, class: &str, (from, to): (f64, f64), height: f64, tip: &str) {
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
    pub(crate) fn lying_bar(
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

    /// Draws a thin horizontal bar at the lower edge of a [horizontal bar](Self::lying_bar), with a tooltip.
    pub(crate) fn lying_rule(&mut self, class: &str, (from, to): (f64, f64), length: f64, tip: &str) {
        let ((left, bottom), (right, top)) = (self.at(0.0, from), self.at(length, to));
        let (width, height) = ((right - left).max(1.0), (bottom - top) / 5.0);
        let tip = escaped(tip);
        self.draw(format_args!(
            "<rect class=\"bar {class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{tip}</title></rect>",
            bottom - height
        ));
    }

    /// Draws a vertical line at `x`, labelled above the plot.
    pub(crate) fn rule(&mut self, x: f64, label: &str) {
        let (at, top) = self.at(x, f64::INFINITY);
        let label = escaped(label);
        let anchor = if self.x.place(x) > 0.9 { "end" } else { "middle" };
        self.draw(format_args!(
            "<line class=\"rule\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\"/>\
             <text class=\"value\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            self.height - BOTTOM,
            top - 7.0,
        ));
    }

    /// The finished plot as an element of a page.
    pub(crate) fn finish(self) -> String {
        let Plot { id, title, summary, x, y, height, marks, legend } = &self;
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
            let bottom = self.height - BOTTOM;
            let _ = writeln!(
                axes,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 22.0,
                escaped(text)
            );
        }
        let mut meanings = String::new();
        for (class, meaning) in legend {
            let _ = write!(meanings, "<li><i class=\"{class}\"></i>{}</li>", escaped(meaning));
        }
        if !meanings.is_empty() {
            meanings = format!("<ul class=\"legend\">{meanings}</ul>\n");
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        format!(
            "<figure>\n<figcaption>{}</figcaption>\n\
             <svg id=\"{id}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{axes}{marks}\
             <text class=\"axis\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"axis\" x=\"0\" y=\"{TITLE_LINE}\">{}</text>\n\
             </svg>\n<div>{meanings}<p>{}</p></div>\n</figure>\n",
            escaped(title),
            escaped(title),
            escaped(summary),
            self.height - 8.0,
            escaped(&x.title),
            escaped(&y.title),
            escaped(summary),
        )
    }
}
