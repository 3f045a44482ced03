//! Colours as three linear-ish numbers, 0 black to 1 white.

/// Red, green, blue.
pub(super) type Colour = [f32; 3];

/// `a` at 0, `b` at 1.
pub(super) fn mix(a: Colour, b: Colour, t: f32) -> Colour {
    std::array::from_fn(|channel| a[channel] + (b[channel] - a[channel]) * t)
}

/// From hue (turns), saturation and value.
pub(super) fn hsv(hue: f32, saturation: f32, value: f32) -> Colour {
    [0.0, 2.0 / 3.0, 1.0 / 3.0].map(|offset| {
        let distance = ((hue + offset).rem_euclid(1.0) * 6.0 - 3.0).abs() - 1.0;
        value * (1.0 - saturation + saturation * distance.clamp(0.0, 1.0))
    })
}
