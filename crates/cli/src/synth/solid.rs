//! The geometry of simple solids, seen from the front: where their outline is, and which way their surface faces.

use super::scene::unit;

/// Bodies that can be distinguished by their outline.
pub(super) const KINDS: [Kind; 6] =
    [Kind::Ball, Kind::Drum, Kind::Cone, Kind::Crate, Kind::Ring, Kind::Diamond];

/// The kind of a body.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Ball,
    Drum,
    Cone,
    Crate,
    Ring,
    Diamond,
}

/// A point of a body's surface, in units of its radius.
pub(super) struct Surface {
    /// Distance to the outline, positive inside.
    pub(super) inside: f32,
    pub(super) normal: [f32; 3],
    /// Where around the body, for its pattern.
    pub(super) along: f32,
}

impl Kind {
    /// The surface seen at (`x`, `y`), right and up from the middle; `None` well outside.
    pub(super) fn surface(self, x: f32, y: f32) -> Option<Surface> {
        let surface = match self {
            Kind::Ball => ball(x, y),
            Kind::Drum => drum(x, y),
            Kind::Cone => cone(x, y),
            Kind::Crate => crate_of_wood(x, y),
            Kind::Ring => ring(x, y),
            Kind::Diamond => diamond(x, y),
        };
        const FRINGE: f32 = -0.1;
        (surface.inside > FRINGE).then_some(surface)
    }
}

fn ball(x: f32, y: f32) -> Surface {
    let r2 = x * x + y * y;
    Surface { inside: 1.0 - r2.sqrt(), normal: unit([x, y, (1.0 - r2).max(0.0).sqrt()]), along: y * 0.9 }
}

fn drum(x: f32, y: f32) -> Surface {
    const HALF: f32 = 0.72;
    const OVAL: f32 = 0.18;
    const TOP: f32 = 0.72;
    let bulge = OVAL * (1.0 - (x / HALF).powi(2)).max(0.0).sqrt();
    let sides = HALF - x.abs();
    let inside = sides.min(y + 1.0 - OVAL + bulge).min(TOP + bulge - y);
    let lid = y > TOP - bulge;
    let across = (x / HALF).clamp(-1.0, 1.0);
    let normal = if lid { [0.0, 0.95, 0.3] } else { unit([across, 0.0, (1.0 - across * across).sqrt()]) };
    Surface { inside, normal, along: y }
}

fn cone(x: f32, y: f32) -> Surface {
    const HALF: f32 = 0.82;
    const OVAL: f32 = 0.18;
    const HEIGHT: f32 = 2.0 - OVAL;
    let half = HALF * (1.0 - y) / HEIGHT;
    let bulge = OVAL * (1.0 - (x / HALF).powi(2)).max(0.0).sqrt();
    let slope = HALF / HEIGHT;
    let inside = ((half - x.abs()) / (1.0 + slope * slope).sqrt()).min(y + 1.0 - OVAL + bulge);
    let across = (x / half.max(f32::EPSILON)).clamp(-1.0, 1.0);
    Surface { inside, normal: unit([across, slope, (1.0 - across * across).sqrt()]), along: y }
}

/// A cube seen from one of its upright edges.
fn crate_of_wood(x: f32, y: f32) -> Surface {
    const EDGE: f32 = -0.15;
    const LEFT: f32 = -0.85;
    const RIGHT: f32 = 0.85;
    const TILT: f32 = 0.28;
    const SIDE: f32 = 1.25;
    // Lines of the left and right faces rise away from the near edge.
    let rise = if x < EDGE { TILT * (EDGE - x) } else { TILT * (x - EDGE) };
    let floor = -0.95 + rise;
    let brow = floor + SIDE;
    // The far edges of the lid, seen from the left and the right corner.
    let back_left = -0.95 + SIDE + TILT * (EDGE - LEFT) + TILT * (x - LEFT);
    let back_right = -0.95 + SIDE + TILT * (RIGHT - EDGE) + TILT * (RIGHT - x);
    let inside = (x - LEFT).min(RIGHT - x).min(y - floor).min(back_left.min(back_right) - y);
    let normal = match (y > brow, x < EDGE) {
        (true, _) => [0.0, 0.97, 0.24],
        (false, true) => [-0.64, 0.0, 0.77],
        (false, false) => [0.56, 0.0, 0.83],
    };
    Surface { inside, normal, along: y - rise }
}

fn ring(x: f32, y: f32) -> Surface {
    const MIDDLE: f32 = 0.68;
    const TUBE: f32 = 0.32;
    let from_centre = (x * x + y * y).sqrt().max(f32::EPSILON);
    let q = (from_centre - MIDDLE) / TUBE;
    let out = q.clamp(-1.0, 1.0);
    let normal = unit([out * x / from_centre, out * y / from_centre, (1.0 - out * out).sqrt()]);
    Surface { inside: TUBE * (1.0 - q.abs()), normal, along: y.atan2(x) }
}

fn diamond(x: f32, y: f32) -> Surface {
    const SLIMNESS: f32 = 1.4;
    let inside = (1.0 - SLIMNESS * x.abs() - y.abs()) / (1.0 + SLIMNESS * SLIMNESS).sqrt();
    Surface { inside, normal: unit([0.7 * x.signum(), 0.45 * y.signum(), 0.55]), along: y }
}
