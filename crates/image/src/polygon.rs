//! Draws polygons as masks: pixels inside a polygon become 1.
//!
//! The result equals that of COCO's mask API (`rleFrPoly` of `cocodataset/cocoapi`). The border is drawn on a
//! grid five times as fine as the pixels. Each time the border crosses the middle line of a column of pixels,
//! the pixels below the crossing change from outside to inside or back.

use forebay_base::Result;

use super::refuse::bad_row;
use super::spec::{Image, Size};

/// The number of grid points for each pixel, along each axis.
const SCALE: f64 = 5.0;
/// The largest coordinate that a point may have. It is far outside of any image.
const FARTHEST: f64 = 2.0 * Image::MAX_SIDE as f64;
/// The fewest coordinates of a polygon, which are those of three points.
const FEWEST: usize = 6;

/// Sets the pixels inside a polygon to 1. `points` is `x0, y0, x1, y1, ...`, `pixels` is the mask row by row,
/// and `changes` is scratch memory with a byte for each pixel.
///
/// # Errors
/// Fails if there are fewer than three points, if a coordinate has no partner, or if a point is not finite or
/// far outside the image.
pub(super) fn fill(points: &[f64], size: Size, changes: &mut [u8], pixels: &mut [u8]) -> Result<()> {
    if points.len() < FEWEST || !points.len().is_multiple_of(2) {
        return Err(bad_row(format!("a polygon of {} numbers", points.len()))
            .hint("a polygon has at least three points, of two numbers each"));
    }
    if let Some(far) = points.iter().find(|number| !(-FARTHEST..=FARTHEST).contains(*number)) {
        return Err(bad_row(format!("{far} as a coordinate of a polygon"))
            .hint(format!("coordinates are from -{FARTHEST} to {FARTHEST}")));
    }
    changes.fill(0);
    let corners: Vec<(i64, i64)> =
        points.as_chunks::<2>().0.iter().map(|[x, y]| (on_grid(*x), on_grid(*y))).collect();
    let mut last = None;
    for (at, from) in corners.iter().enumerate() {
        let to = corners[(at + 1) % corners.len()];
        each_point(*from, to, |point| {
            if let Some(last) = last.filter(|last: &(i64, i64)| last.0 != point.0) {
                change(last, point, size, changes);
            }
            last = Some(point);
        });
    }
    let (rows, columns) = (size.height as usize, size.width as usize);
    let mut is_inside = 0;
    for column in 0..columns {
        for row in 0..rows {
            is_inside ^= changes[column * rows + row];
            pixels[row * columns + column] |= is_inside;
        }
    }
    Ok(())
}

fn on_grid(coordinate: f64) -> i64 {
    (SCALE * coordinate + 0.5) as i64
}

/// Calls `each` with the grid points on a line, in order: one point in each column if the line is wider than
/// high, otherwise one in each row.
fn each_point((x0, y0): (i64, i64), (x1, y1): (i64, i64), mut each: impl FnMut((i64, i64))) {
    let (across, down) = ((x1 - x0).abs(), (y1 - y0).abs());
    let is_flat = across >= down;
    // The line is always computed from its left or upper end, so that both directions give the same points.
    let is_reversed = if is_flat { x0 > x1 } else { y0 > y1 };
    let ((x0, y0), (x1, y1)) = if is_reversed { ((x1, y1), (x0, y0)) } else { ((x0, y0), (x1, y1)) };
    let slope = match is_flat {
        true if across == 0 => 0.0,
        true => (y1 - y0) as f64 / across as f64,
        false => (x1 - x0) as f64 / down as f64,
    };
    let length = across.max(down);
    let beside = |start: i64, at: i64| (start as f64 + slope * at as f64 + 0.5) as i64;
    for step in 0..=length {
        let at = if is_reversed { length - step } else { step };
        each(if is_flat { (x0 + at, beside(y0, at)) } else { (beside(x0, at), y0 + at) });
    }
}

/// Records in `changes` if the border crosses the middle line of a column of pixels between two neighbouring
/// grid points.
fn change(from: (i64, i64), to: (i64, i64), size: Size, changes: &mut [u8]) {
    let in_pixels = |at: i64| (at as f64 + 0.5) / SCALE - 0.5;
    let x = in_pixels(if to.0 < from.0 { to.0 } else { to.0 - 1 });
    if x.floor() != x || x < 0.0 || x > f64::from(size.width) - 1.0 {
        return;
    }
    let y = in_pixels(to.1.min(from.1)).clamp(0.0, f64::from(size.height)).ceil();
    // A crossing below the last pixel of the last column is outside `changes`, and is ignored.
    let place = x as usize * size.height as usize + y as usize;
    if let Some(change) = changes.get_mut(place) {
        *change ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { height: 4, width: 5 };

    fn filled(points: &[f64]) -> Result<Vec<u8>> {
        let (mut changes, mut pixels) = (vec![9; 20], vec![0; 20]);
        fill(points, SIZE, &mut changes, &mut pixels).map(|()| pixels)
    }

    #[test]
    fn a_rectangle_covers_its_pixels_whichever_way_it_goes() {
        let mut wanted = vec![0; 20];
        for (x, y) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            wanted[y * 5 + x] = 1;
        }
        assert_eq!(filled(&[1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0]).unwrap(), wanted);
        assert_eq!(filled(&[1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 1.0]).unwrap(), wanted);
        assert_eq!(filled(&[-7.0, -7.0, 90.0, -7.0, 90.0, 90.0, -7.0, 90.0]).unwrap(), [1; 20]);
    }

    #[test]
    fn what_is_no_polygon_is_bad() {
        for points in
            [&[0.0; 4][..], &[0.0; 7], &[0.0, 0.0, 1.0, 1.0, f64::NAN, 1.0], &[0.0, 0.0, 1.0, 1.0, 1e9, 1.0]]
        {
            assert_eq!(filled(points).unwrap_err().kind(), forebay_base::ErrorKind::BadRow);
        }
    }
}
