//! Arithmetic on numbers: exact on integers, and with 64-bit floats otherwise.
//!
//! `arrow-arith` keeps the type of its operands, and fails if a result does not fit it or if an integer is
//! divided by 0. Here integers may have 128 bits, `/` by 0 gives infinity or NaN, and `//` and `%` of an
//! integer by 0 give null.

use forebay_base::{Error, Result};

use super::{Arithmetic, Value};

/// The value of an operand in one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// The result for a null, and of `//` and `%` of an integer by 0.
    Null,
    Whole(i128),
    Float(f64),
}

/// The result of an operation on two numbers.
///
/// # Errors
/// Fails if the result is an integer of more than 128 bits.
pub(crate) fn apply(left: Number, op: Arithmetic, right: Number) -> Result<Number> {
    use Arithmetic::{Add, Divide, FloorDivide, Multiply, Remainder, Subtract};
    let (left, right) = match (left, right) {
        (Number::Null, _) | (_, Number::Null) => return Ok(Number::Null),
        (Number::Whole(a), Number::Whole(b)) if op != Divide => {
            if b == 0 && matches!(op, FloorDivide | Remainder) {
                return Ok(Number::Null);
            }
            let floor = || {
                let quotient = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
            };
            let result = match op {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                FloorDivide => floor(),
                Divide | Remainder => floor().and_then(|quotient| a.checked_sub(quotient * b)),
            };
            let cause = "arithmetic on columns needs integers of more than 128 bits";
            return result.map(Number::Whole).ok_or_else(|| Error::invalid(cause));
        }
        (Number::Whole(a), Number::Whole(b)) => return Ok(Number::Float(quotient(a, b))),
        (left, right) => (float(left), float(right)),
    };
    Ok(Number::Float(match op {
        Add => left + right,
        Subtract => left - right,
        Multiply => left * right,
        Divide => left / right,
        FloorDivide => divide(left, right).0,
        Remainder => divide(left, right).1,
    }))
}

/// Quotient and remainder like those of CPython's `float_divmod`, including the signs of zeros. A division by
/// 0 gives infinity or NaN as the quotient, and NaN as the remainder.
fn divide(left: f64, right: f64) -> (f64, f64) {
    if right == 0.0 {
        return (left / right, f64::NAN);
    }
    let rest = left % right;
    let quotient = (left - rest) / right;
    let (quotient, rest) = match rest {
        0.0 => (quotient, 0.0_f64.copysign(right)),
        rest if (rest < 0.0) != (right < 0.0) => (quotient - 1.0, rest + right),
        rest => (quotient, rest),
    };
    let floor = if quotient == 0.0 { 0.0_f64.copysign(left / right) } else { quotient.round() };
    (floor, rest)
}

/// The float nearest to the quotient of two integers, like that of CPython's `long_true_divide`. A division
/// by 0 gives infinity or NaN.
fn quotient(left: i128, right: i128) -> f64 {
    /// The number of bits to which the quotient is computed: two more than a float has. The last bit is set
    /// if there is a remainder, so that the quotient is rounded in the right direction.
    const BITS: u32 = f64::MANTISSA_DIGITS + 2;
    let is_exact = |number: i128| number.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
    if left == 0 || right == 0 || is_exact(left) && is_exact(right) {
        return left as f64 / right as f64;
    }
    let (dividend, divisor) = (left.unsigned_abs(), right.unsigned_abs());
    let (mut whole, mut rest) = (dividend / divisor, dividend % divisor);
    let mut shift = 0;
    while u128::BITS - whole.leading_zeros() < BITS && rest > 0 {
        // Doubling cannot overflow: the remainder is less than the divisor, which is at most 2^127.
        let doubled = rest << 1;
        let carries = doubled >= divisor;
        rest = if carries { doubled - divisor } else { doubled };
        whole = whole << 1 | u128::from(carries);
        shift += 1;
    }
    let nearest = (whole | u128::from(rest > 0)) as f64 / 2f64.powi(shift);
    if (left < 0) == (right < 0) { nearest } else { -nearest }
}

fn float(number: Number) -> f64 {
    match number {
        Number::Null => f64::NAN,
        Number::Whole(value) => value as f64,
        Number::Float(value) => value,
    }
}

/// The number that a value is; null if it is not a number.
pub(crate) fn literal(value: &Value) -> Number {
    match value {
        Value::Int(value) => Number::Whole((*value).into()),
        Value::UInt(value) => Number::Whole((*value).into()),
        Value::Float(value) => Number::Float(*value),
        _ => Number::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_divided_as_python_divides_them() {
        let whole = |a: i128, op, b: i128| apply(Number::Whole(a), op, Number::Whole(b)).unwrap();
        for (a, b, quotient, rest) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, 3, 2, 0)]
        {
            assert_eq!(whole(a, Arithmetic::FloorDivide, b), Number::Whole(quotient), "{a} // {b}");
            assert_eq!(whole(a, Arithmetic::Remainder, b), Number::Whole(rest), "{a} % {b}");
            let floats = |op| apply(Number::Float(a as f64), op, Number::Whole(b)).unwrap();
            assert_eq!(floats(Arithmetic::FloorDivide), Number::Float(quotient as f64), "{a}.0 // {b}");
            assert_eq!(floats(Arithmetic::Remainder), Number::Float(rest as f64), "{a}.0 % {b}");
        }
        assert_eq!(whole(7, Arithmetic::Divide, 2), Number::Float(3.5));
        assert_eq!(whole(7, Arithmetic::FloorDivide, 0), Number::Null);
        assert_eq!(whole(7, Arithmetic::Divide, 0), Number::Float(f64::INFINITY));
    }

    #[test]
    fn floats_are_divided_as_python_divides_them() {
        const INF: f64 = f64::INFINITY;
        for (left, right, quotient, rest) in [
            (7.5, 2.0, 3.0, 1.5),
            (-7.5, 2.0, -4.0, 0.5),
            (1.0, 0.1, 9.0, 0.099_999_999_999_999_95),
            (5.0, INF, 0.0, 5.0),
            (-5.0, INF, -1.0, INF),
            (5.0, -INF, -1.0, -INF),
        ] {
            assert_eq!(divide(left, right), (quotient, rest), "{left} and {right}");
        }
        for (left, right) in [(INF, 2.0), (-INF, 2.0), (INF, INF), (f64::NAN, 1.0), (1.0, f64::NAN)] {
            let (quotient, rest) = divide(left, right);
            assert!(quotient.is_nan() && rest.is_nan(), "{left} and {right}");
        }
        assert_eq!(divide(-3.0, 0.0).0, -INF);
        for (left, right, quotient, rest) in [
            (-2.0, -5.5, 0.0, -2.0),
            (-2.5, 2.5, -1.0, 0.0),
            (2.5, -2.5, -1.0, -0.0),
            (0.0, -2.0, -0.0, -0.0),
        ] {
            let found = divide(left, right);
            let bits = |pair: (f64, f64)| [pair.0, pair.1].map(f64::to_bits);
            assert_eq!(bits(found), bits((quotient, rest)), "{left} and {right}: {found:?}");
        }
    }

    /// The expected values are the results of `int / int` in Python.
    #[test]
    fn large_integers_have_the_nearest_quotient() {
        const LARGEST: i128 = i128::MAX;
        for (left, right, wanted) in [
            (6_902_782_842_352_061_907, 6, 1.150_463_807_058_677e18),
            (-6_902_782_842_352_061_907, 6, -1.150_463_807_058_677e18),
            ((1 << 53) + 1, 1, 9_007_199_254_740_992.0),
            ((1 << 54) + 6, 2, 9_007_199_254_740_996.0),
            (1, LARGEST, 5.877_471_754_111_438e-39),
            (LARGEST, LARGEST, 1.0),
            (LARGEST - 1, LARGEST, 1.0),
            (LARGEST, 3, 5.671_372_782_015_641e37),
            (i128::MIN, -1, 1.701_411_834_604_692_3e38),
        ] {
            assert_eq!(quotient(left, right), wanted, "{left} and {right}");
        }
        assert_eq!(quotient(LARGEST, 0), f64::INFINITY);
        assert!(quotient(0, 0).is_nan());
    }

    #[test]
    fn integers_are_exact_or_refused() {
        let square = |a: i128| apply(Number::Whole(a), Arithmetic::Multiply, Number::Whole(a));
        let most = i128::from(u64::MAX >> 1);
        assert_eq!(square(most).unwrap(), Number::Whole(most * most));
        assert!(square(most * most).unwrap_err().to_string().contains("128 bits"));
    }
}
