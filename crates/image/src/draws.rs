//! The random numbers of one row: a function of its key alone.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17,
//! with the constants of Vigna's public-domain `splitmix64.c`). Its n-th number is a hash of
//! `key + n * gamma`, so a row needs no state from the rows before it, and neighbouring keys give unrelated
//! numbers.

/// The key of the random draws for one row: the caller derives it from (seed, epoch, row, column).
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::RowKey;
///
/// /// Whether a row is mirrored: independent of threads and ranks, and drawn again in each epoch.
/// fn is_mirrored(RowKey(seed): RowKey) -> bool {
///     seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey(pub u64);

/// The step of the generator: the golden ratio less 1, as a 64-bit fraction. It must be odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of bits of a double's significand.
const DOUBLE_BITS: u32 = 53;

/// An operation that draws from a random stream of its own. Its number is mixed into the key, so each
/// operation needs a number of its own.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Operation {
    /// Mirroring the image top to bottom.
    VerticalFlip = 0x7666_6C70,
    /// Changing the colours.
    ColorJitter = 0x6A69_7472,
    /// Making the image grey.
    RandomGrayscale = 0x6772_6579,
    /// Blurring the image.
    GaussianBlur = 0x626C_7572,
    /// Overwriting a random box.
    RandomErasing = 0x6572_6173,
    /// Rotating the image.
    Rotation = 0x726F_7461,
    /// Choosing operations by a policy.
    AutoAugment = 0x6175_676D,
    /// Inverting all levels.
    Invert = 0x696E_7674,
    /// Keeping the highest bits of levels.
    Posterize = 0x706F_7374,
    /// Inverting high levels.
    Solarize = 0x736F_6C61,
    /// Changing the sharpness.
    Sharpness = 0x7368_7270,
    /// Stretching levels to their whole range.
    AutoContrast = 0x6175_746F,
    /// Equalizing histograms.
    Equalize = 0x6571_7561,
}

/// The sequence of random numbers of one row.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(key: RowKey) -> Self {
        Draws(key.0)
    }

    /// The sequence of random numbers for another operation on the same row. It is unrelated to those of
    /// [`new`](Self::new) and of other operations, so that adding an operation does not change what the
    /// others draw.
    pub(super) fn for_operation(key: RowKey, operation: Operation) -> Self {
        let mut mixed = Draws(key.0 ^ u64::from(operation as u32));
        Draws(mixed.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws a number uniformly from [0, 1), in steps of 2^-53.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> (u64::BITS - DOUBLE_BITS)) as f64 / (1u64 << DOUBLE_BITS) as f64
    }

    /// Draws a number uniformly from [low, high).
    pub(super) fn uniform(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a whole number uniformly from 0 to `below` - 1. It is the high half of a product, with a bias of
    /// less than `below` / 2^64.
    pub(super) fn below(&mut self, below: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(below)) >> u64::BITS) as u32
    }

    /// Draws from the symmetric Dirichlet distribution with this concentration: `count` numbers, whose sum is
    /// 1.
    pub(super) fn shares(&mut self, alpha: f64, count: usize) -> Vec<f64> {
        let each: Vec<f64> = (0..count).map(|_| self.gamma(alpha)).collect();
        let all: f64 = each.iter().sum();
        each.into_iter().map(|share| share / all).collect()
    }

    /// Draws from the gamma distribution with this shape, which is above 0, and the scale 1 (Marsaglia,
    /// Tsang: "A Simple Method for Generating Gamma Variables", 2000).
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let larger = self.gamma(shape + 1.0);
            return larger * self.above_zero().powf(1.0 / shape);
        }
        let mode = shape - 1.0 / 3.0;
        let spread = 1.0 / (9.0 * mode).sqrt();
        loop {
            let normal = self.normal();
            let root = 1.0 + spread * normal;
            let cube = root * root * root;
            let limit = 0.5 * normal * normal + mode - mode * cube;
            if cube > 0.0 && self.above_zero().ln() < limit + mode * cube.ln() {
                return mode * cube;
            }
        }
    }

    /// Draws from the standard normal distribution, by the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.above_zero().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Draws a number uniformly from (0, 1].
    fn above_zero(&mut self) -> f64 {
        1.0 - self.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_splitmix64_c() {
        let mut draws = Draws::new(RowKey(1234567));
        let expected: [u64; 3] = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!([draws.next(), draws.next(), draws.next()], expected);
    }

    #[test]
    fn operations_draw_apart() {
        let key = RowKey(1234567);
        let own = Draws::for_operation(key, Operation::VerticalFlip).next();
        assert_ne!(own, Draws::new(key).next());
        assert_ne!(own, Draws::for_operation(RowKey(1234568), Operation::VerticalFlip).next());
        assert_eq!(own, Draws::for_operation(key, Operation::VerticalFlip).next());
    }

    #[test]
    fn gamma_has_the_mean_and_the_variance_of_its_shape() {
        let mut draws = Draws::new(RowKey(11));
        for shape in [0.2, 1.0, 7.5] {
            let drawn: Vec<f64> = (0..40_000).map(|_| draws.gamma(shape)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance = drawn.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
            assert!((mean / shape - 1.0).abs() < 0.04 && (variance / shape - 1.0).abs() < 0.08, "{shape}");
        }
        let shares = draws.shares(0.05, 100);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares.iter().all(|it| *it >= 0.0));
    }

    #[test]
    fn ranges_are_kept() {
        let mut draws = Draws::new(RowKey(7));
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&draws.unit()));
            assert!((2.0..3.0).contains(&draws.uniform((2.0, 3.0))));
            assert!(draws.below(5) < 5);
        }
        assert_eq!(draws.below(1), 0);
    }
}
