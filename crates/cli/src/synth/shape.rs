//! The things in a picture: lit bodies whose kind, colour and pattern show the class.

use super::canvas::Canvas;
use super::colour::{Colour, hsv, lift, mix, scale, tint};
use super::material::Materials;
use super::scene::{Setting, unit};
use super::solid::{KINDS, Kind, Surface};
use crate::random::Random;

/// Hues that go round by the golden ratio keep neighbouring classes apart, however many there are.
const HUE_STEP: f32 = 0.618_034;

/// The properties that all things of a class share.
struct Look {
    kind: Kind,
    hue: f32,
    striped: bool,
}

/// One thing and its place; lengths in pixels.
struct Body {
    look: Look,
    x: f32,
    y: f32,
    radius: f32,
    turn: f32,
    albedo: Colour,
    gloss: f32,
    roughness: f32,
    texture: (f32, f32),
}

/// Puts two to four things of class `class` on the ground, the farthest first.
pub(super) fn paint(
    canvas: &mut Canvas,
    random: &mut Random,
    materials: &Materials,
    setting: &Setting,
    class: u32,
) {
    let mut depths = vec![random.between(0.60, 0.80)];
    depths.extend((0..1 + random.below(3)).map(|_| random.between(0.08, 0.9)));
    let main = depths[0];
    depths.sort_by(f32::total_cmp);
    for depth in depths {
        let body = Body::new(canvas, random, setting, class, depth, depth == main);
        body.shadow(canvas, setting);
        body.paint(canvas, materials, setting);
    }
}

impl Look {
    fn new(class: u32) -> Self {
        let kinds = KINDS.len() as u32;
        Look {
            kind: KINDS[(class % kinds) as usize],
            hue: (class as f32 * HUE_STEP).fract(),
            striped: (class / kinds) % 2 == 1,
        }
    }
}

impl Body {
    fn new(
        canvas: &Canvas,
        random: &mut Random,
        setting: &Setting,
        class: u32,
        depth: f32,
        main: bool,
    ) -> Self {
        let (width, height) = (canvas.width as f32, canvas.height as f32);
        let look = Look::new(class);
        let size = if main { random.between(0.24, 0.32) } else { random.between(0.12, 0.20) };
        let radius = height.min(width) * size * (0.35 + 0.75 * depth);
        let reach = if main { 0.22 } else { 0.48 };
        let albedo = hsv(
            look.hue + random.between(-0.03, 0.03),
            random.between(0.60, 0.90),
            random.between(0.60, 0.92),
        );
        Body {
            x: width * (0.5 + random.between(-reach, reach)),
            y: setting.horizon + (height - setting.horizon) * depth - radius * 0.9,
            radius,
            turn: random.between(-0.25, 0.25),
            albedo,
            gloss: random.between(0.0, 0.5),
            roughness: random.between(0.06, 0.24),
            texture: (random.between(0.0, 512.0), random.between(0.0, 512.0)),
            look,
        }
    }

    /// A soft patch on the ground, away from the light.
    fn shadow(&self, canvas: &mut Canvas, setting: &Setting) {
        const FLATNESS: f32 = 0.28;
        const DARKNESS: f32 = 0.6;
        let reach = self.radius * 1.5;
        let x0 = self.x - setting.light.direction[0] * self.radius * 0.7;
        let y0 = self.y + self.radius * 0.86;
        let (columns, rows) = canvas.around(x0, y0, reach, reach * FLATNESS);
        for y in rows {
            let dy = (y as f32 - y0) / (reach * FLATNESS);
            for x in columns.clone() {
                let dx = (x as f32 - x0) / reach;
                let depth = (1.0 - dx * dx - dy * dy).max(0.0);
                let pixel = &mut canvas.row(y)[x];
                *pixel = scale(*pixel, 1.0 - DARKNESS * depth.min(1.0) * depth.sqrt());
            }
        }
    }

    fn paint(&self, canvas: &mut Canvas, materials: &Materials, setting: &Setting) {
        let (columns, rows) = canvas.around(self.x, self.y, self.radius * 1.05, self.radius * 1.05);
        let (sin, cos) = self.turn.sin_cos();
        let step = canvas.step * 1.2;
        for y in rows {
            let dy = (self.y - y as f32) / self.radius;
            for x in columns.clone() {
                let dx = (x as f32 - self.x) / self.radius;
                let Some(surface) = self.look.kind.surface(dx * cos - dy * sin, dx * sin + dy * cos) else {
                    continue;
                };
                // Half a pixel either side of the outline is mixed: no staircase.
                let cover = (surface.inside * self.radius + 0.5).clamp(0.0, 1.0);
                let skin =
                    materials.stone.at(self.texture.0 + x as f32 * step, self.texture.1 + y as f32 * step);
                let colour = self.shade(&surface, skin, setting);
                let pixel = &mut canvas.row(y)[x];
                *pixel = mix(*pixel, colour, cover);
            }
        }
    }

    fn shade(&self, surface: &Surface, skin: f32, setting: &Setting) -> Colour {
        const STRIPES: f32 = 3.0;
        const HIGHLIGHT: i32 = 24;
        let n = surface.normal;
        let light = &setting.light;
        let facing = dot(n, light.direction).max(0.0);
        let half = unit([light.direction[0], light.direction[1], light.direction[2] + 1.0]);
        let glint = self.gloss * dot(n, half).max(0.0).powi(HIGHLIGHT);
        // Light from above and, weaker, thrown back from the ground.
        let around = 0.75 + 0.25 * n[1];
        let pale = self.look.striped && (surface.along * STRIPES).rem_euclid(1.0) < 0.5;
        let paint = if pale { mix(self.albedo, [0.92, 0.92, 0.88], 0.75) } else { self.albedo };
        let albedo = scale(paint, 1.0 + self.roughness * skin);
        let incoming = scale(light.colour, 0.85 * facing);
        let total = [
            incoming[0] + light.ambient[0] * around,
            incoming[1] + light.ambient[1] * around,
            incoming[2] + light.ambient[2] * around,
        ];
        lift(tint(albedo, total), glint)
    }
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
