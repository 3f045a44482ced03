//! Where a picture was taken: a sky over hills and a ground, or a wall behind a table.

use super::canvas::Canvas;
use super::colour::{Colour, hsv, mix, scale, smoothstep};
use super::material::{Materials, Tile};
use crate::random::Random;

/// The properties of a scene that the things in it need.
pub(super) struct Setting {
    /// Row where the ground begins.
    pub(super) horizon: f32,
    pub(super) light: Light,
}

/// The light that falls on things.
pub(super) struct Light {
    /// Towards the light, length 1: right, up, towards the viewer.
    pub(super) direction: [f32; 3],
    pub(super) colour: Colour,
    /// The light from all directions.
    pub(super) ambient: Colour,
}

/// Sky at the zenith, sky at the horizon, sunlight.
const SKIES: [[Colour; 3]; 5] = [
    [[0.22, 0.42, 0.78], [0.70, 0.82, 0.93], [1.00, 0.97, 0.90]],
    [[0.35, 0.52, 0.75], [0.86, 0.88, 0.88], [0.98, 0.96, 0.92]],
    [[0.55, 0.58, 0.62], [0.78, 0.79, 0.80], [0.85, 0.86, 0.88]],
    [[0.28, 0.33, 0.55], [0.96, 0.68, 0.44], [1.00, 0.78, 0.55]],
    [[0.16, 0.30, 0.60], [0.62, 0.74, 0.90], [1.00, 0.95, 0.85]],
];
/// Grass, meadow, dry grass, sand, earth, asphalt, snow.
const GROUNDS: [Colour; 7] = [
    [0.30, 0.42, 0.16],
    [0.38, 0.46, 0.22],
    [0.62, 0.56, 0.32],
    [0.78, 0.69, 0.52],
    [0.42, 0.32, 0.24],
    [0.42, 0.42, 0.43],
    [0.86, 0.88, 0.92],
];
const FORESTS: [Colour; 4] = [[0.16, 0.27, 0.14], [0.24, 0.32, 0.16], [0.36, 0.33, 0.22], [0.30, 0.27, 0.30]];
const WOODS: [Colour; 5] =
    [[0.55, 0.36, 0.20], [0.70, 0.52, 0.33], [0.36, 0.22, 0.14], [0.80, 0.70, 0.55], [0.45, 0.42, 0.38]];

/// Textures are sampled askew, so that the lattice they were made on does not show.
const SLANT: f32 = 0.37;
const INDOORS: f32 = 0.3;
const MOST_RIDGES: u32 = 4;

/// Paints all of `canvas`.
pub(super) fn paint(canvas: &mut Canvas, random: &mut Random, materials: &Materials) -> Setting {
    if random.chance(INDOORS) {
        interior(canvas, random, materials)
    } else {
        landscape(canvas, random, materials)
    }
}

fn landscape(canvas: &mut Canvas, random: &mut Random, materials: &Materials) -> Setting {
    let height = canvas.height as f32;
    let horizon = height * random.between(0.30, 0.55);
    let [zenith, haze, sun] = random.pick(&SKIES);
    sky(canvas, random, &materials.cloud, horizon, zenith, haze);
    let ridges = random.below(MOST_RIDGES + 1);
    let forest = random.pick(&FORESTS);
    for nearness in 1..=ridges {
        let near = nearness as f32 / MOST_RIDGES as f32;
        ridge(canvas, random, materials, horizon, near, mix(haze, forest, near.sqrt()));
    }
    let stone = random.chance(0.5);
    let texture = if stone { &materials.stone } else { &materials.leaf };
    let soil = random_shade(random, &GROUNDS);
    ground(canvas, random, texture, horizon, soil, haze);
    let side = random.between(-0.8, 0.8);
    Setting {
        horizon,
        light: Light {
            direction: unit([side, 0.75, 0.5]),
            colour: sun,
            ambient: scale(mix(zenith, haze, 0.6), 0.5),
        },
    }
}

fn interior(canvas: &mut Canvas, random: &mut Random, materials: &Materials) -> Setting {
    let horizon = canvas.height as f32 * random.between(0.40, 0.62);
    let lamp = random.between(-0.7, 0.7);
    let paint = hsv(random.unit(), random.between(0.03, 0.30), random.between(0.50, 0.92));
    wall(canvas, random, materials, horizon, paint, lamp);
    let wood = random_shade(random, &WOODS);
    table(canvas, random, &materials.grain, horizon, wood);
    let warm = [1.0, random.between(0.86, 0.98), random.between(0.72, 0.95)];
    Setting {
        horizon,
        light: Light { direction: unit([lamp, 0.7, 0.6]), colour: warm, ambient: scale(paint, 0.45) },
    }
}

fn sky(canvas: &mut Canvas, random: &mut Random, cloud: &Tile, horizon: f32, zenith: Colour, haze: Colour) {
    let cover = random.between(-0.4, 2.2);
    let (u, v) = place(random);
    let step = canvas.step * random.between(0.25, 0.8);
    for y in 0..horizon as usize + 1 {
        let up = 1.0 - y as f32 / horizon;
        let air = mix(haze, zenith, up.powf(0.7));
        // Clouds lie flat: towards the horizon they crowd together.
        let squash = 1.0 + 2.5 * (1.0 - up) * (1.0 - up);
        let row = v + y as f32 * step * squash;
        for (pixel, density) in canvas.row(y).iter_mut().zip(cloud.walk(u, row, step, SLANT * step)) {
            let white = smoothstep(cover, cover + 1.6, density);
            let shade = 0.97 - 0.10 * smoothstep(cover + 0.8, cover + 2.5, density);
            *pixel = mix(air, [shade, shade, shade + 0.01], 0.85 * white);
        }
    }
}

/// One line of hills; nearer ones are rougher and lower.
fn ridge(
    canvas: &mut Canvas,
    random: &mut Random,
    materials: &Materials,
    horizon: f32,
    near: f32,
    colour: Colour,
) {
    let (u, v) = place(random);
    let scale_of_hills = canvas.height as f32;
    let base = horizon - scale_of_hills * 0.10 * (1.0 - near);
    let relief = scale_of_hills * random.between(0.015, 0.06) * (1.4 - near);
    let roughness = scale_of_hills * 0.012 * near;
    let step = canvas.step * random.between(0.4, 0.9);
    let bottom = (horizon as usize + 1).min(canvas.height);
    for x in 0..canvas.width {
        let hill = materials.cloud.at(u + x as f32 * step, v);
        let trees = materials.leaf.at(v + x as f32 * canvas.step, u);
        let top = base - relief * (hill + 0.6) - roughness * trees;
        let first = top.floor().max(0.0) as usize;
        for y in first..bottom {
            let inside = (y as f32 + 1.0 - top).clamp(0.0, 1.0);
            let (right, down) = (x as f32 * canvas.step * 1.4, y as f32 * canvas.step * 1.8);
            let texture = materials.leaf.at(u + right - SLANT * down, v + down + SLANT * right);
            let lit = scale(colour, 1.0 + (0.08 + 0.24 * near) * texture + 0.1 * hill);
            let pixel = &mut canvas.row(y)[x];
            *pixel = mix(*pixel, lit, inside);
        }
    }
}

fn ground(
    canvas: &mut Canvas,
    random: &mut Random,
    texture: &Tile,
    horizon: f32,
    colour: Colour,
    haze: Colour,
) {
    let (u, v) = place(random);
    let contrast = random.between(0.28, 0.55);
    let patches = random.between(0.05, 0.18);
    let (width, height) = (canvas.width as f32, canvas.height as f32);
    for y in horizon as usize..canvas.height {
        let near = ((y as f32 - horizon) / (height - horizon)).clamp(0.0, 1.0);
        // A plane seen at a slant: texels crowd together in the distance.
        let step = canvas.step * (1.1 + 1.2 * (1.0 - near) * (1.0 - near));
        let row = v + (y as f32 - horizon) * canvas.step * (3.0 - near);
        let fog = 0.55 * (1.0 - near).powi(3);
        let fine = texture.walk(u - step * width / 2.0, row, step, SLANT * step);
        let broad = texture.walk(v - step * width / 16.0, u + row / 8.0, step / 8.0, 0.0);
        for ((pixel, fine), broad) in canvas.row(y).iter_mut().zip(fine).zip(broad) {
            let lit = scale(colour, (1.0 + contrast * (0.4 + 0.6 * near) * fine + patches * broad).max(0.05));
            *pixel = mix(lit, haze, fog);
        }
    }
}

fn wall(
    canvas: &mut Canvas,
    random: &mut Random,
    materials: &Materials,
    horizon: f32,
    paint: Colour,
    lamp: f32,
) {
    let (u, v) = place(random);
    let plaster = random.between(0.05, 0.14);
    let stripes = if random.chance(0.35) { random.between(0.03, 0.10) } else { 0.0 };
    let period = canvas.height as f32 * random.between(0.06, 0.16);
    let (width, height) = (canvas.width as f32, canvas.height as f32);
    let (glow_x, glow_y) = (width * (0.5 + 0.5 * lamp), horizon * random.between(-0.1, 0.4));
    let reach = height * random.between(0.5, 1.1);
    for y in 0..horizon as usize + 1 {
        let texture = materials.stone.walk(
            u - SLANT * y as f32 * canvas.step,
            v + y as f32 * canvas.step,
            canvas.step,
            SLANT * canvas.step,
        );
        let smears = materials.cloud.walk(
            v,
            u + y as f32 * canvas.step * 0.5,
            canvas.step * 0.5,
            SLANT * canvas.step * 0.5,
        );
        let dy = (y as f32 - glow_y) / reach;
        for (x, ((pixel, texture), smear)) in canvas.row(y).iter_mut().zip(texture).zip(smears).enumerate() {
            let dx = (x as f32 - glow_x) / reach;
            let glow = 0.62 + 0.55 / (1.0 + 1.6 * (dx * dx + dy * dy));
            let stripe = if (x as f32 / period).fract() < 0.5 { stripes } else { -stripes };
            *pixel = scale(paint, glow * (1.0 + plaster * texture + 0.03 * smear + stripe));
        }
    }
}

fn table(canvas: &mut Canvas, random: &mut Random, grain: &Tile, horizon: f32, wood: Colour) {
    let (u, v) = place(random);
    let contrast = random.between(0.10, 0.24);
    let planks = random.between(0.10, 0.30);
    let height = canvas.height as f32;
    for y in horizon as usize..canvas.height {
        let near = ((y as f32 - horizon) / (height - horizon)).clamp(0.0, 1.0);
        let depth = near.sqrt();
        let plank = (depth / planks).floor();
        let seam = 0.65 + 0.35 * smoothstep(0.0, 0.06, (depth / planks).fract());
        let shift = plank * 97.0;
        let row = v + shift + (y as f32 - horizon) * canvas.step * (1.5 - 0.4 * near);
        let tone = 1.0 + 0.10 * grain.at(shift, u);
        let fibres = grain.walk(u + shift, row, canvas.step * 1.2, 0.0);
        for (pixel, fibre) in canvas.row(y).iter_mut().zip(fibres) {
            *pixel = scale(wood, (0.75 + 0.35 * near) * seam * tone * (1.0 + contrast * fibre));
        }
    }
}

/// Somewhere on a tile.
fn place(random: &mut Random) -> (f32, f32) {
    (random.between(0.0, 512.0), random.between(0.0, 512.0))
}

/// One of `shades`, never twice quite the same.
fn random_shade(random: &mut Random, shades: &[Colour]) -> Colour {
    scale(random.pick(shades), random.between(0.8, 1.12))
}

/// The same direction with length 1.
pub(super) fn unit(v: [f32; 3]) -> [f32; 3] {
    let length = v.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    v.map(|x| x / length)
}
