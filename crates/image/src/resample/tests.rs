//! Tests that the AVX2 and AVX-512 code gives the same pixels as `fast_image_resize`.

use super::super::draws::Draws;
use super::*;
use crate::RowKey;

/// Sizes, boxes and pixels are random. Some cases only copy along one axis, and some have a single pixel.
#[test]
fn pixels_are_those_of_the_library() {
    let mut draws = Draws::new(RowKey(7));
    let mut resampler = Resampler::default();
    #[cfg(target_arch = "x86_64")]
    let [mut in_strips, mut with_avx2, mut far] = [0; 3];
    for round in 0..4_000 {
        let below = |draws: &mut Draws, most: u32| 1 + draws.below(most);
        let (most, largest) = match round % 16 {
            0 => (500, 224),
            1..=4 => (200, 40),
            _ => (90, 60),
        };
        let channels = if draws.below(3) == 0 { 1 } else { 3 };
        let rect = Rect { x: 3, y: 5, width: below(&mut draws, most), height: below(&mut draws, most) };
        let mut size = Size { height: below(&mut draws, largest), width: below(&mut draws, largest) };
        let (width, height) = (below(&mut draws, rect.width), below(&mut draws, rect.height));
        let (x, y) = (draws.below(rect.width - width + 1), draws.below(rect.height - height + 1));
        let view = Rect { x: 3 + x, y: 5 + y, width, height };
        let [mut left, mut top, mut box_width, mut box_height] =
            [view.x, view.y, view.width, view.height].map(f64::from);
        if draws.below(2) == 0 {
            (left, top) = (left + 0.4 * draws.unit(), top + 0.4 * draws.unit());
            (box_width, box_height) = (box_width - 0.5 - 0.4 * draws.unit(), box_height - 0.5);
        }
        if draws.below(8) == 0 {
            size.width = width;
        }
        let resampling = Resampling::Bilinear;
        let sampling = Sampling { left, top, width: box_width, height: box_height, view, resampling };
        let count = rect.width as usize * rect.height as usize * channels;
        let extremes = draws.below(2) == 0;
        let pixels: Vec<u8> = (0..count)
            .map(|_| if extremes { draws.below(2) as u8 * 255 } else { draws.below(256) as u8 })
            .collect();
        let decoded = Decoded { pixels: &pixels, rect, reduction: 1, channels, depth: Depth::Eight };
        let mirror = Mirror { across: draws.below(2) == 0, down: draws.below(2) == 0 };
        let mut found = vec![0; size.width as usize * size.height as usize * channels];
        let mut expected = found.clone();
        resampler.resample(decoded, &sampling, size, mirror, &mut found).expect("a resize");
        let part = Part::covering(&sampling, 1, view);
        resampler.with_library(decoded, view, part, size, resampling, &mut expected).expect("a resize");
        mirror_in_place(mirror, &mut expected, size, channels);
        assert!(
            found == expected,
            "round {round}: {decoded_rect:?} {sampling:?} to {size:?}, {mirror:?}",
            decoded_rect = rect
        );
        found.fill(0);
        let row = size.width as usize * channels;
        let mut strip = vec![0; row * STRIP_ROWS];
        let mut write = |first: usize, rows: &[u8]| found[first * row..][..rows.len()].copy_from_slice(rows);
        if resampler.resample_in_strips(decoded, &sampling, size, mirror, &mut strip, &mut write) {
            assert!(
                found == expected,
                "round {round}, strips: {rect:?} {sampling:?} to {size:?}, {mirror:?}"
            );
            #[cfg(target_arch = "x86_64")]
            {
                in_strips += 1;
            }
        }
        #[cfg(target_arch = "x86_64")]
        {
            found.fill(0);
            let is_done = resampler.avx2.resize(
                decoded,
                view,
                part,
                size,
                mirror,
                &mut ResizeTarget::Whole(&mut found),
            );
            assert!(!is_done || found == expected, "round {round}, AVX2: {rect:?} {sampling:?} to {size:?}");
            with_avx2 += usize::from(is_done);
            far += usize::from(is_done && box_width > 3.5 * f64::from(size.width));
        }
    }
    #[cfg(target_arch = "x86_64")]
    assert!(
        in_strips > 2_500 && with_avx2 > 2_500 && far > 150 || !avx2::is_here(),
        "{in_strips} in strips, {with_avx2}, {far} of large scales"
    );
}

/// The code of no other crate runs here, so that Miri can run this test.
#[test]
fn strips_have_the_rows_of_the_whole() {
    let mut draws = Draws::new(RowKey(8));
    let mut resampler = Resampler::default();
    for round in 0..if cfg!(miri) { 12 } else { 2_000 } {
        let mut below = |most: u32| 1 + draws.below(most);
        let channels = if below(2) == 1 { 1 } else { 3 };
        let rect = Rect { x: 3, y: 5, width: below(50), height: below(40) };
        let size = Size { height: below(20), width: below(30) };
        let mirror = Mirror { across: below(2) == 1, down: below(2) == 1 };
        let count = rect.width as usize * rect.height as usize * channels;
        let pixels: Vec<u8> = (0..count).map(|_| (below(256) - 1) as u8).collect();
        let decoded = Decoded { pixels: &pixels, rect, reduction: 1, channels, depth: Depth::Eight };
        let [left, top, width, height] = [rect.x, rect.y, rect.width, rect.height].map(f64::from);
        let sampling = Sampling { left, top, width, height, view: rect, resampling: Resampling::Bilinear };
        let row = size.width as usize * channels;
        let mut whole = vec![0; row * size.height as usize];
        let target = ResizeTarget::Whole(&mut whole);
        let is_done = resampler.in_registers(decoded, &sampling, size, mirror, target);
        let mut found = vec![0; whole.len()];
        let mut strip = vec![0; row * STRIP_ROWS];
        let mut write = |first: usize, rows: &[u8]| found[first * row..][..rows.len()].copy_from_slice(rows);
        let in_strips =
            resampler.resample_in_strips(decoded, &sampling, size, mirror, &mut strip, &mut write);
        assert_eq!(in_strips, is_done, "round {round}");
        assert!(found == whole, "round {round}: {rect:?} to {size:?}, {mirror:?}");
        let (least, most) = (pixels.iter().min(), pixels.iter().max());
        assert!(!is_done || whole.iter().min() >= least && whole.iter().max() <= most, "round {round}");
    }
}
