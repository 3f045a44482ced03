//! Counts boxes that no detector learns from: without area, outside of their image, or larger than it.

use crate::units::counted;

/// The numbers of boxes of each kind. A box counts as the first kind that it is of.
#[derive(Default)]
pub(super) struct OddBoxes {
    /// Boxes whose width or height is 0.
    without_area: u64,
    outside: u64,
    /// Boxes that reach beyond a side of their image by more than the tolerance.
    beyond: u64,
}

impl OddBoxes {
    /// Counts a box of this left, top, width and height. `size` is the width and the height of its image, if
    /// they are known.
    pub(super) fn count(
        &mut self,
        [left, top, width, height]: [f64; 4],
        size: Option<[f64; 2]>,
        tolerance: f64,
    ) {
        if width <= 0.0 || height <= 0.0 {
            self.without_area += 1;
            return;
        }
        let Some(size) = size else { return };
        let sides = || [(left, left + width, size[0]), (top, top + height, size[1])].into_iter();
        if sides().any(|(start, end, side)| end <= 0.0 || start >= side) {
            self.outside += 1;
        } else if sides().any(|(start, end, side)| start < -tolerance || end > side + tolerance) {
            self.beyond += 1;
        }
    }

    /// Remarks on the kinds that were found. `form` says which numbers make a box.
    pub(super) fn remarks(&self, form: &str) -> impl Iterator<Item = String> {
        let noted = [
            (self.without_area, "written with a box whose width or height is 0"),
            (self.outside, "written with a box that is outside of the image"),
            (self.beyond, "written with a box that reaches beyond the image"),
        ];
        let noted = noted.into_iter().filter(|(number, _)| *number > 0);
        noted.map(move |(number, kind)| format!("{kind} ({form}): {}", counted(number, "object")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_counts_as_the_first_kind_that_it_is_of() {
        let mut odd = OddBoxes::default();
        let size = Some([100.0, 50.0]);
        for sides in [[0.0, 0.0, 100.0, 50.0], [-1.0, -1.0, 102.0, 52.0], [99.0, 49.0, 1.0, 1.0]] {
            odd.count(sides, size, 1.0);
        }
        assert_eq!(odd.remarks("x").count(), 0);
        for sides in [[1.0, 1.0, 0.0, 2.0], [200.0, 1.0, 3.0, 0.0]] {
            odd.count(sides, None, 1.0);
        }
        for sides in [[100.0, 0.0, 2.0, 2.0], [0.0, -2.0, 2.0, 2.0], [5.0, 50.0, 1.0, 1.0]] {
            odd.count(sides, size, 1.0);
            odd.count(sides, None, 1.0);
        }
        odd.count([90.0, 0.0, 12.0, 5.0], size, 1.0);
        assert_eq!((odd.without_area, odd.outside, odd.beyond), (2, 3, 1));
        let said: Vec<String> = odd.remarks("x").collect();
        assert_eq!(said[2], "written with a box that reaches beyond the image (x): 1 object");
    }
}
