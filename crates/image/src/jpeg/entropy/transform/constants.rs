//! The constants of the inverse cosine transform by Loeffler, Ligtenberg and Moschytz (ICASSP 1989), in fixed
//! point.

/// The number of fractional bits of a constant.
pub(super) const CONSTANT_BITS: u32 = 13;
/// The number of fractional bits that the results of the first pass have.
pub(super) const PASS_BITS: u32 = 2;
/// The number of bits that each pass rounds away. In the second pass, three of them divide by 8.
pub(super) const FIRST_SHIFT: u32 = CONSTANT_BITS - PASS_BITS;
pub(super) const SECOND_SHIFT: u32 = CONSTANT_BITS + PASS_BITS + 3;
/// The number to add to signed samples around zero to get unsigned samples.
pub(super) const CENTRE: i8 = i8::MIN;

/// Converts a number to fixed point with [`CONSTANT_BITS`] fractional bits.
const fn fixed(number: f64) -> i16 {
    (number * (1 << CONSTANT_BITS) as f64 + 0.5) as i16
}

pub(super) const C_0_211: i16 = fixed(0.211_164_243);
pub(super) const C_0_298: i16 = fixed(0.298_631_336);
pub(super) const C_0_390: i16 = fixed(0.390_180_644);
pub(super) const C_0_509: i16 = fixed(0.509_795_579);
pub(super) const C_0_541: i16 = fixed(0.541_196_100);
pub(super) const C_0_601: i16 = fixed(0.601_344_887);
pub(super) const C_0_720: i16 = fixed(0.720_959_822);
pub(super) const C_0_765: i16 = fixed(0.765_366_865);
pub(super) const C_0_850: i16 = fixed(0.850_430_095);
pub(super) const C_0_899: i16 = fixed(0.899_976_223);
pub(super) const C_1_061: i16 = fixed(1.061_594_337);
pub(super) const C_1_175: i16 = fixed(1.175_875_602);
pub(super) const C_1_272: i16 = fixed(1.272_758_580);
pub(super) const C_1_451: i16 = fixed(1.451_774_981);
pub(super) const C_1_501: i16 = fixed(1.501_321_110);
pub(super) const C_1_847: i16 = fixed(1.847_759_065);
pub(super) const C_1_961: i16 = fixed(1.961_570_560);
pub(super) const C_2_053: i16 = fixed(2.053_119_869);
pub(super) const C_2_172: i16 = fixed(2.172_734_803);
pub(super) const C_2_562: i16 = fixed(2.562_915_447);
pub(super) const C_3_072: i16 = fixed(3.072_711_026);
pub(super) const C_3_624: i16 = fixed(3.624_509_785);
