use super::*;

/// The numbers of pixels of an image.
const COUNTS: &[usize] = if cfg!(miri) { &[BLOCK + 7] } else { &[1, BLOCK - 1, BLOCK, 3 * BLOCK + 7] };

/// The steps between the colours whose hue is changed; every level of green is tried.
const STEP_OF_RED: usize = if cfg!(miri) { 255 } else { 15 };
const STEP_OF_BLUE: usize = if cfg!(miri) { 255 } else { 5 };

/// Four colours. The tests have the results that torchvision's functions on tensors give for them.
const COLOURS: [u8; 12] = [200, 30, 90, 10, 250, 128, 77, 77, 77, 0, 0, 255];

fn after(change: ColourChange) -> [u8; 12] {
    let mut pixels = COLOURS;
    super::change([change], &mut pixels, RGB);
    pixels
}

/// Changes one pixel by the formulas as torchvision writes them, to check the fast code. `mean` is the
/// image's mean grey.
fn changed(pixel: [u8; RGB], change: ColourChange, mean: f32) -> [u8; RGB] {
    let [r, g, b] = pixel.map(f32::from);
    let grey = (r * WEIGHTS[0] + g * WEIGHTS[1] + b * WEIGHTS[2]) as u8;
    match change {
        ColourChange::Brightness(factor) => [r, g, b].map(|value| (value * factor as f32) as u8),
        ColourChange::Contrast(factor) => {
            [r, g, b].map(|value| (value * factor as f32 + mean * (1.0 - factor) as f32) as u8)
        }
        ColourChange::Saturation(factor) => {
            let grey = f32::from(grey) * (1.0 - factor) as f32;
            [r, g, b].map(|value| (value * factor as f32 + grey) as u8)
        }
        ColourChange::Grey => [grey; RGB],
        ColourChange::Hue(turns) => {
            let [r, g, b] = [r, g, b].map(|value| value / WHITE);
            let (most, least) = (r.max(g).max(b), r.min(g).min(b));
            let range = most - least;
            if range == 0.0 {
                return pixel;
            }
            let away = |value: f32| (most - value) / range;
            let sextant = match most {
                _ if most == r => away(b) - away(g),
                _ if most == g => 2.0 + away(r) - away(b),
                _ => 4.0 + away(g) - away(r),
            };
            let hue = (sextant / SEXTANTS + turns as f32).rem_euclid(1.0) * SEXTANTS;
            let saturation = range / most;
            let of = |share: f32| (most * (1.0 - share)).clamp(0.0, 1.0);
            let part = hue.fract();
            let (low, falling, rising) =
                (of(saturation), of(saturation * part), of(saturation * (1.0 - part)));
            let turned = match hue.floor() as u32 {
                1 => [falling, most, low],
                2 => [low, most, rising],
                3 => [low, falling, most],
                4 => [rising, low, most],
                5 => [most, low, falling],
                _ => [most, rising, low],
            };
            turned.map(|value| (value * LEVELS) as u8)
        }
    }
}

/// The mean grey of pixels.
fn mean(pixels: &[[u8; RGB]]) -> f32 {
    let grey = |pixel: &[u8; RGB]| u64::from(changed(*pixel, ColourChange::Grey, 0.0)[0]);
    (pixels.iter().map(grey).sum::<u64>() as f64 / pixels.len() as f64) as f32
}

#[test]
fn colours_change_as_in_torchvision() {
    assert_eq!(after(ColourChange::Brightness(1.3)), BRIGHTER);
    assert_eq!(after(ColourChange::Contrast(0.6)), LESS_CONTRAST);
    assert_eq!(after(ColourChange::Saturation(1.7)), MORE_SATURATED);
    assert_eq!(after(ColourChange::Hue(-0.2)), TURNED);
    assert_eq!(after(ColourChange::Grey), GREY);
}

#[test]
fn a_factor_that_changes_nothing_changes_nothing() {
    for change in [ColourChange::Brightness(1.0), ColourChange::Contrast(1.0), ColourChange::Saturation(1.0)]
    {
        assert_eq!(after(change), COLOURS);
    }
    for turns in [0.0, 1.0] {
        assert_eq!(after(ColourChange::Hue(turns)), COLOURS);
    }
    let flat = after(ColourChange::Contrast(0.0));
    assert_eq!(flat, [flat[0]; 12]);
}

#[test]
fn blocks_change_as_single_pixels_do_in_every_order() {
    let changes = [
        ColourChange::Brightness(1.4),
        ColourChange::Contrast(0.55),
        ColourChange::Saturation(1.8),
        ColourChange::Hue(0.37),
        ColourChange::Hue(-0.5),
        ColourChange::Grey,
    ];
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for count in COUNTS.iter().copied() {
        let pixels: Vec<[u8; RGB]> = (0..count).map(|_| [byte(), byte(), byte()]).collect();
        for first in changes {
            for second in changes {
                let mut expected = pixels.clone();
                for change in [first, second] {
                    let mean = mean(&expected);
                    expected.iter_mut().for_each(|pixel| *pixel = changed(*pixel, change, mean));
                }
                let mut found = pixels.clone();
                change([first, second], found.as_flattened_mut(), RGB);
                assert!(found == expected, "{first:?}, {second:?}, {count} pixels");
            }
        }
    }
}

/// Other processors than this one have other instructions, but the same pixels.
#[test]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "functions for processors with some extensions")]
fn every_instruction_set_gives_the_same_pixels() {
    let steps = [
        ColourStep::Levels { factor: 1.3, offset: -20.5 },
        ColourStep::Saturation { factor: 1.7, rest: -0.7 },
        ColourStep::Hue(0.21),
        ColourStep::Saturation { factor: 0.4, rest: 0.6 },
        ColourStep::Hue(-0.48),
    ];
    let pixels: Vec<u8> =
        (0..3 * 10_007_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
    for channels in [LUMA, RGB] {
        let mut plain = pixels.clone();
        let sum = pass_of(&steps, &mut plain, channels, true);
        if is_x86_feature_detected!("avx2") {
            let mut found = pixels.clone();
            // SAFETY: the processor has AVX2.
            assert_eq!(unsafe { pass_avx2(&steps, &mut found, channels, true) }, sum);
            assert!(found == plain, "AVX2, {channels} channels");
        }
        if has_avx512() {
            let mut found = pixels.clone();
            // SAFETY: the processor has these extensions.
            assert_eq!(unsafe { pass_avx512(&steps, &mut found, channels, true) }, sum);
            assert!(found == plain, "AVX-512, {channels} channels");
        }
    }
}

#[test]
fn every_hue_is_that_of_a_single_pixel() {
    for turns in [-0.5, -0.13, 0.0, 0.25, 0.5] {
        for red in (0..=255).step_by(STEP_OF_RED) {
            let pixels: Vec<[u8; RGB]> = (0..=255)
                .flat_map(|green| (0..=255).step_by(STEP_OF_BLUE).map(move |blue| [red, green, blue]))
                .collect();
            let mut found = pixels.clone();
            change([ColourChange::Hue(turns)], found.as_flattened_mut(), RGB);
            for (pixel, found) in pixels.into_iter().zip(found) {
                assert_eq!(found, changed(pixel, ColourChange::Hue(turns), 0.0), "{pixel:?} by {turns}");
            }
        }
    }
}

#[test]
fn an_image_of_one_channel_has_neither_saturation_nor_hue() {
    let grey: Vec<u8> = (0..=255).collect();
    let after = |change: ColourChange| {
        let mut pixels = grey.clone();
        super::change([change], &mut pixels, LUMA);
        pixels
    };
    for change in [ColourChange::Saturation(0.2), ColourChange::Hue(0.3), ColourChange::Grey] {
        assert_eq!(after(change), grey);
    }
    assert_eq!(after(ColourChange::Brightness(2.0))[..3], [0, 2, 4]);
    assert_eq!(after(ColourChange::Contrast(0.0)), [127; 256]);
    change([ColourChange::Hue(0.1)], &mut [], RGB);
}

const BRIGHTER: [u8; 12] = [255, 39, 116, 13, 255, 166, 100, 100, 100, 0, 0, 255];
const LESS_CONTRAST: [u8; 12] = [155, 53, 89, 41, 185, 112, 81, 81, 81, 35, 35, 188];
const MORE_SATURATED: [u8; 12] = [255, 0, 92, 0, 255, 102, 77, 77, 77, 0, 0, 255];
const TURNED: [u8; 12] = [106, 30, 200, 180, 250, 10, 77, 77, 77, 0, 255, 204];
const GREY: [u8; 12] = [87, 87, 87, 164, 164, 164, 76, 76, 76, 29, 29, 29];
