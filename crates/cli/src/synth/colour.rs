//! Colours as three approximately linear numbers between 0 (black) and 1 (white).

/// The red, green and blue of a colour.
pub(super) type Colour = [f32; 3];

/// Mixes two colours: `a` if `t` is 0, `b` if it is 1.
pub(super) fn mix(a: Colour, b: Colour, t: f32) -> Colour {
    std::array::from_fn(|channel| a[channel] + (b[channel] - a[channel]) * t)
}

/// The colour with this hue (in turns), saturation and value.
pub(super) fn hsv(hue: f32, saturation: f32, value: f32) -> Colour {
    [0.0, 2.0 / 3.0, 1.0 / 3.0].map(|offset| {
        let distance = ((hue + offset).rem_euclid(1.0) * 6.0 - 3.0).abs() - 1.0;
        value * (1.0 - saturation + saturation * distance.clamp(0.0, 1.0))
    })
}
