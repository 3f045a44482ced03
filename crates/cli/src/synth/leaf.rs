//! The shapes in a picture. They overlap like leaves, as surfaces in photographs do, and each has an outline,
//! a colour, a light and a texture of its own.

use super::canvas::Canvas;
use super::colour::{Colour, hsv, mix};
use super::material::Tile;
use crate::random::Random;

/// The step between the hues of neighbouring classes, in turns of the colour circle. It is the golden ratio
/// less 1, because multiples of it are spread evenly over the circle for any number of classes.
const HUE_STEP: f32 = 0.618_034;
/// The outlines of surfaces. Shapes that show a class use all six; the random surfaces behind them use only
/// the first three.
const OUTLINES: [Outline; 6] =
    [Outline::Ball, Outline::Crate, Outline::Diamond, Outline::Cone, Outline::Ring, Outline::Star];
/// The number of stripes per radius of a striped shape.
const STRIPES: f32 = 3.0;

#[derive(Clone, Copy)]
enum Outline {
    Ball,
    Crate,
    Diamond,
    Cone,
    Ring,
    Star,
}

/// One surface, with lengths in pixels.
pub(super) struct PaintedLeaf {
    outline: Outline,
    x: f32,
    y: f32,
    radius: f32,
    /// The height divided by the width.
    squash: f32,
    turn: f32,
    colour: Colour,
    /// How much brighter the surface is at its upper left, where the light comes from.
    light: f32,
    contrast: f32,
    striped: bool,
    /// The position in the texture that is drawn at the picture's upper left corner, random for each surface.
    texel: (f32, f32),
}

impl PaintedLeaf {
    /// Makes a random surface that is drawn behind the shapes of the picture's class, with a hue near `hue`.
    pub(super) fn any(canvas: &Canvas, random: &mut Random, radius: f32, hue: f32, contrast: f32) -> Self {
        let saturation = 0.5 * random.unit().powi(2);
        PaintedLeaf {
            outline: OUTLINES[random.below(3) as usize],
            x: canvas.width as f32 * random.between(-0.1, 1.1),
            y: canvas.height as f32 * random.between(-0.1, 1.1),
            radius,
            squash: random.between(0.3, 1.0),
            turn: random.between(0.0, std::f32::consts::PI),
            colour: hsv(hue + random.between(-0.15, 0.15), saturation, random.between(0.12, 0.92)),
            light: random.between(0.0, 0.4),
            // Most surfaces of a photograph are smooth or out of focus.
            contrast: contrast * random.unit().powi(2),
            striped: false,
            texel: texel(random),
        }
    }

    /// A shape whose outline, colour and stripes show its class; the `main` one is large and in the middle.
    pub(super) fn of_class(canvas: &Canvas, random: &mut Random, class: u32, main: bool) -> Self {
        let (width, height) = (canvas.width as f32, canvas.height as f32);
        let (size, reach) = match main {
            true => (random.between(0.2, 0.3), 0.2),
            false => (random.between(0.08, 0.14), 0.4),
        };
        let outlines = OUTLINES.len() as u32;
        let hue = class as f32 * HUE_STEP + random.between(-0.03, 0.03);
        PaintedLeaf {
            outline: OUTLINES[(class % outlines) as usize],
            x: width * (0.5 + random.between(-reach, reach)),
            y: height * (0.5 + random.between(-reach, reach)),
            radius: width.min(height) * size,
            squash: 1.0,
            turn: random.between(-0.25, 0.25),
            colour: hsv(hue, random.between(0.6, 0.9), random.between(0.5, 0.9)),
            light: random.between(0.2, 0.5),
            contrast: random.between(0.0, 0.2),
            striped: (class / outlines) % 2 == 1,
            texel: texel(random),
        }
    }

    /// Paints the surface over the picture.
    pub(super) fn paint(&self, canvas: &mut Canvas, texture: &Tile) {
        let (sin, cos) = self.turn.sin_cos();
        let (columns, rows) = canvas.around(self.x, self.y, self.radius * std::f32::consts::SQRT_2);
        let step = canvas.step;
        for y in rows {
            let dy = (y as f32 - self.y) / self.radius;
            for (x, pixel) in columns.clone().zip(&mut canvas.row(y)[columns.clone()]) {
                let dx = (x as f32 - self.x) / self.radius;
                let (across, down) = (dx * cos + dy * sin, (dy * cos - dx * sin) / self.squash);
                // Half a pixel on either side of the outline is mixed with the background, so that the edge
                // is smooth.
                let cover = self.outline.inside(across, down) * self.radius * self.squash + 0.5;
                if cover <= 0.0 {
                    continue;
                }
                let skin = texture.at(self.texel.0 + x as f32 * step, self.texel.1 + y as f32 * step);
                let lit = 1.0 - self.light * (dx + dy) + self.contrast * skin;
                let pale = self.striped && (down * STRIPES).rem_euclid(1.0) < 0.5;
                let colour = if pale { mix(self.colour, [0.9; 3], 0.7) } else { self.colour };
                *pixel = mix(*pixel, colour.map(|level| level * lit.max(0.05)), cover.min(1.0));
            }
        }
    }
}

impl Outline {
    /// The approximate distance of a point to the outline in units of the radius, positive inside.
    fn inside(self, x: f32, y: f32) -> f32 {
        let (across, down) = (x.abs(), y.abs());
        match self {
            Outline::Ball => 1.0 - x.hypot(y),
            Outline::Crate => 0.85 - across.max(down),
            Outline::Diamond => (1.2 - across - down) * std::f32::consts::FRAC_1_SQRT_2,
            Outline::Cone => (0.8 - y).min(0.9 * y - 1.6 * across + 0.8) * 0.6,
            Outline::Ring => 0.3 - (x.hypot(y) - 0.7).abs(),
            Outline::Star => (1.1 - (across.sqrt() + down.sqrt()).powi(2)) * 0.5,
        }
    }
}

/// Returns a random position in the texture.
fn texel(random: &mut Random) -> (f32, f32) {
    (random.between(0.0, 512.0), random.between(0.0, 512.0))
}
