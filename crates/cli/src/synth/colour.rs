//! Colours as three linear-ish numbers, 0 black to 1 white.

/// Red, green, blue.
pub(super) type Colour = [f32; 3];

/// `a` at 0, `b` at 1.
pub(super) fn mix(a: Colour, b: Colour, t: f32) -> Colour {
    [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t]
}

/// Brighter or darker.
pub(super) fn scale(c: Colour, by: f32) -> Colour {
    [c[0] * by, c[1] * by, c[2] * by]
}

/// Under light of another colour.
pub(super) fn tint(c: Colour, by: Colour) -> Colour {
    [c[0] * by[0], c[1] * by[1], c[2] * by[2]]
}

/// With white added.
pub(super) fn lift(c: Colour, by: f32) -> Colour {
    [c[0] + by, c[1] + by, c[2] + by]
}

/// From hue (turns), saturation and value.
pub(super) fn hsv(hue: f32, saturation: f32, value: f32) -> Colour {
    let channel = |offset: f32| {
        let distance = ((hue + offset).rem_euclid(1.0) * 6.0 - 3.0).abs() - 1.0;
        value * (1.0 - saturation + saturation * distance.clamp(0.0, 1.0))
    };
    [channel(0.0), channel(2.0 / 3.0), channel(1.0 / 3.0)]
}

/// 0 below `low`, 1 above `high`, without a corner between.
pub(super) fn smoothstep(low: f32, high: f32, x: f32) -> f32 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}
