use super::super::super::spec::{Interpolation, LUMA, RGB};
use super::*;

const SIZE: Size = Size { height: 331, width: 662 };

/// Compares magnitudes with those that torchvision 0.29 gave.
#[test]
pub(super) fn magnitudes_are_torchvisions() {
    let (narrow, wide) = (Ranges::for_size(SIZE), Ranges::WIDE);
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}, {expected}");
    close(OperationKind::ShearX.magnitude(&narrow, 9, 31), 0.09);
    close(OperationKind::TranslateX.magnitude(&narrow, 30, 31), 300.0);
    close(OperationKind::TranslateY.magnitude(&narrow, 30, 31), 150.0);
    close(OperationKind::Rotate.magnitude(&wide, 10, 31), 45.0);
    close(OperationKind::Solarize.magnitude(&narrow, 0, 31), 1.0);
    close(OperationKind::Solarize.magnitude(&narrow, 30, 31), 0.0);
    let bits = |ranges: &Ranges, bins| {
        (0..bins).map(|at| OperationKind::Posterize.magnitude(ranges, at, bins) as u8).collect::<Vec<_>>()
    };
    assert_eq!(bits(&narrow, 10), [8, 8, 7, 7, 6, 6, 5, 5, 4, 4]);
    assert_eq!(bits(&wide, 7), [8, 7, 6, 5, 4, 3, 2]);
}

/// Compares magnitudes with `torch.linspace`. Some would differ if the product and the sum were rounded
/// separately.
#[test]
fn magnitudes_are_torchvisions_to_the_last_bit() {
    let side = Size { height: 224, width: 224 };
    let (narrow, wide) = (Ranges::for_size(side), Ranges::WIDE);
    for (kind, ranges, at, bins, expected) in [
        (OperationKind::TranslateX, &wide, 1, 31, 1.0666667_f32),
        (OperationKind::TranslateX, &wide, 14, 31, 14.933334),
        (OperationKind::TranslateX, &wide, 15, 31, 15.999999),
        (OperationKind::TranslateX, &wide, 20, 31, 21.333332),
        (OperationKind::TranslateX, &wide, 21, 31, 22.4),
        (OperationKind::TranslateX, &narrow, 21, 31, 71.057_4),
        (OperationKind::TranslateX, &narrow, 30, 31, 101.510_574),
        (OperationKind::ShearY, &wide, 8, 31, 0.264),
        (OperationKind::ShearY, &wide, 23, 31, 0.759),
        (OperationKind::Contrast, &narrow, 20, 31, 0.59999996),
        (OperationKind::Contrast, &narrow, 30, 31, 0.9),
    ] {
        let found = kind.magnitude(ranges, at, bins);
        assert_eq!(found, f64::from(expected), "{kind:?}, {at} of {bins}");
    }
    let first_inverted = |at| {
        let by = OperationKind::Solarize.magnitude(&wide, at, 31);
        let operation = OperationKind::Solarize.operation(by, SMALL, &AutoAugment::imagenet());
        let mut levels: [u8; 256] = std::array::from_fn(|level| level as u8);
        operation.unwrap().apply(&mut levels, Size::from(16), LUMA, &mut Vec::new());
        (0..=255).find(|level| levels[usize::from(*level)] != *level)
    };
    assert_eq!(
        [2, 3, 12, 15, 20, 26, 28, 29].map(first_inverted),
        [238, 230, 153, 128, 85, 34, 17, 9].map(Some)
    );
}

const SMALL: Size = Size { height: 4, width: 5 };
const LEVELS: usize = 60;

/// A small picture in which neighbouring pixels differ.
fn picture() -> [u8; LEVELS] {
    std::array::from_fn(|at| {
        let (x, y, channel) = (at / RGB % 5, at / RGB / 5, at % RGB);
        (37 * x * x + 61 * y + 83 * channel + 19 * x * y) as u8
    })
}

#[test]
fn operations_are_torchvisions() {
    for ((kind, magnitude, interpolation), expected) in GOLDEN {
        let augment = AutoAugment::imagenet().interpolation(interpolation).fill([9, 80, 200]);
        let mut pixels = picture();
        let operation = kind.operation(magnitude, SMALL, &augment).unwrap();
        operation.apply(&mut pixels, SMALL, RGB, &mut Vec::new());
        for (found, expected) in pixels.into_iter().zip(expected) {
            assert!(found.abs_diff(expected) <= 1, "{kind:?} by {magnitude}: {pixels:?}");
        }
    }
    assert_eq!(OperationKind::Identity.operation(0.0, SMALL, &AutoAugment::svhn()), None);
}

/// Operations with their magnitudes, and the pixels that torchvision 0.29 makes of the picture.
const GOLDEN: [((OperationKind, f64, Interpolation), [u8; LEVELS]); 18] = [
    (
        (OperationKind::ShearX, 0.3, Interpolation::Nearest),
        [
            0, 83, 166, 37, 120, 203, 148, 231, 58, 77, 160, 243, 80, 163, 246, 61, 144, 227, 117, 200, 27,
            247, 74, 157, 195, 22, 105, 217, 44, 127, 197, 24, 107, 90, 173, 0, 57, 140, 223, 98, 181, 8, 9,
            80, 200, 21, 104, 187, 189, 16, 99, 175, 2, 85, 235, 62, 145, 9, 80, 200,
        ],
    ),
    (
        (OperationKind::ShearX, 0.3, Interpolation::Bilinear),
        [
            6, 89, 172, 54, 137, 181, 137, 220, 86, 77, 160, 243, 59, 130, 208, 86, 169, 137, 175, 143, 85,
            224, 51, 134, 205, 32, 115, 70, 49, 128, 178, 69, 88, 117, 136, 27, 65, 148, 167, 88, 171, 62,
            13, 71, 150, 29, 100, 183, 188, 15, 98, 178, 5, 88, 213, 60, 141, 9, 80, 200,
        ],
    ),
    (
        (OperationKind::ShearY, -0.3, Interpolation::Nearest),
        [
            0, 83, 166, 37, 120, 203, 9, 80, 200, 9, 80, 200, 9, 80, 200, 61, 144, 227, 117, 200, 27, 148,
            231, 58, 77, 160, 243, 80, 163, 246, 122, 205, 32, 197, 24, 107, 247, 74, 157, 195, 22, 105, 217,
            44, 127, 183, 10, 93, 21, 104, 187, 90, 173, 0, 57, 140, 223, 98, 181, 8,
        ],
    ),
    (
        (OperationKind::ShearY, -0.3, Interpolation::Bilinear),
        [
            1, 72, 150, 15, 72, 151, 16, 74, 154, 9, 80, 200, 9, 80, 200, 52, 135, 218, 81, 164, 106, 173,
            192, 83, 70, 148, 229, 37, 97, 174, 113, 196, 61, 161, 103, 71, 208, 99, 118, 189, 29, 112, 169,
            86, 169, 174, 39, 84, 100, 68, 151, 115, 134, 25, 64, 134, 217, 140, 133, 50,
        ],
    ),
    (
        (OperationKind::TranslateX, 2.4, Interpolation::Nearest),
        [
            9, 80, 200, 9, 80, 200, 0, 83, 166, 37, 120, 203, 148, 231, 58, 9, 80, 200, 9, 80, 200, 61, 144,
            227, 117, 200, 27, 247, 74, 157, 9, 80, 200, 9, 80, 200, 122, 205, 32, 197, 24, 107, 90, 173, 0,
            9, 80, 200, 9, 80, 200, 183, 10, 93, 21, 104, 187, 189, 16, 99,
        ],
    ),
    (
        (OperationKind::TranslateY, -1.6, Interpolation::Nearest),
        [
            61, 144, 227, 117, 200, 27, 247, 74, 157, 195, 22, 105, 217, 44, 127, 122, 205, 32, 197, 24, 107,
            90, 173, 0, 57, 140, 223, 98, 181, 8, 183, 10, 93, 21, 104, 187, 189, 16, 99, 175, 2, 85, 235,
            62, 145, 9, 80, 200, 9, 80, 200, 9, 80, 200, 9, 80, 200, 9, 80, 200,
        ],
    ),
    (
        (OperationKind::Rotate, 27.0, Interpolation::Nearest),
        [
            9, 80, 200, 148, 231, 58, 77, 160, 243, 217, 44, 127, 217, 44, 127, 0, 83, 166, 117, 200, 27,
            247, 74, 157, 57, 140, 223, 98, 181, 8, 61, 144, 227, 117, 200, 27, 90, 173, 0, 57, 140, 223,
            235, 62, 145, 122, 205, 32, 122, 205, 32, 21, 104, 187, 189, 16, 99, 9, 80, 200,
        ],
    ),
    (
        (OperationKind::Rotate, 27.0, Interpolation::Bilinear),
        [
            9, 67, 162, 65, 128, 103, 118, 159, 174, 158, 83, 166, 64, 53, 127, 27, 110, 176, 126, 158, 104,
            227, 68, 140, 129, 86, 153, 101, 173, 14, 62, 144, 218, 149, 121, 74, 120, 137, 30, 113, 93, 125,
            189, 54, 116, 38, 95, 106, 139, 98, 91, 89, 75, 145, 96, 30, 106, 19, 60, 155,
        ],
    ),
    (
        (OperationKind::Brightness, -0.4, Interpolation::Nearest),
        [
            0, 49, 99, 22, 72, 121, 88, 138, 34, 46, 96, 145, 48, 97, 147, 36, 86, 136, 70, 120, 16, 148, 44,
            94, 117, 13, 63, 130, 26, 76, 73, 123, 19, 118, 14, 64, 54, 103, 0, 34, 84, 133, 58, 108, 4, 109,
            6, 55, 12, 62, 112, 113, 9, 59, 105, 1, 51, 141, 37, 87,
        ],
    ),
    (
        (OperationKind::Color, 0.9, Interpolation::Nearest),
        [
            0, 97, 255, 0, 134, 255, 113, 255, 0, 16, 174, 255, 19, 177, 255, 0, 158, 255, 82, 240, 0, 255,
            19, 176, 255, 0, 124, 255, 0, 146, 87, 245, 0, 255, 0, 126, 55, 213, 0, 0, 154, 255, 63, 221, 0,
            255, 0, 112, 0, 118, 255, 255, 0, 118, 255, 0, 104, 255, 7, 164,
        ],
    ),
    (
        (OperationKind::Contrast, -0.7, Interpolation::Nearest),
        [
            80, 105, 130, 91, 116, 141, 125, 150, 98, 103, 128, 153, 104, 129, 154, 99, 124, 148, 115, 140,
            88, 154, 103, 127, 139, 87, 112, 145, 94, 118, 117, 142, 90, 139, 88, 112, 107, 132, 80, 97, 122,
            147, 110, 135, 83, 135, 83, 108, 87, 112, 136, 137, 85, 110, 133, 81, 106, 151, 99, 124,
        ],
    ),
    (
        (OperationKind::Sharpness, 0.9, Interpolation::Nearest),
        [
            0, 83, 166, 37, 120, 203, 148, 231, 58, 77, 160, 243, 80, 163, 246, 61, 144, 227, 119, 237, 0,
            255, 40, 176, 232, 0, 89, 217, 44, 127, 122, 205, 32, 234, 0, 109, 56, 228, 0, 0, 177, 255, 98,
            181, 8, 183, 10, 93, 21, 104, 187, 189, 16, 99, 175, 2, 85, 235, 62, 145,
        ],
    ),
    (
        (OperationKind::Sharpness, -0.9, Interpolation::Nearest),
        [
            0, 83, 166, 37, 120, 203, 148, 231, 58, 77, 160, 243, 80, 163, 246, 61, 144, 227, 114, 162, 77,
            174, 107, 137, 157, 90, 120, 217, 44, 127, 122, 205, 32, 159, 74, 104, 123, 117, 68, 125, 102,
            150, 98, 181, 8, 183, 10, 93, 21, 104, 187, 189, 16, 99, 175, 2, 85, 235, 62, 145,
        ],
    ),
    (
        (OperationKind::Posterize, 3.0, Interpolation::Nearest),
        [
            0, 64, 160, 32, 96, 192, 128, 224, 32, 64, 160, 224, 64, 160, 224, 32, 128, 224, 96, 192, 0, 224,
            64, 128, 192, 0, 96, 192, 32, 96, 96, 192, 32, 192, 0, 96, 64, 160, 0, 32, 128, 192, 96, 160, 0,
            160, 0, 64, 0, 96, 160, 160, 0, 96, 160, 0, 64, 224, 32, 128,
        ],
    ),
    (
        (OperationKind::Solarize, 0.43, Interpolation::Nearest),
        [
            0, 83, 89, 37, 135, 52, 107, 24, 58, 77, 95, 12, 80, 92, 9, 61, 111, 28, 138, 55, 27, 8, 74, 98,
            60, 22, 105, 38, 44, 128, 133, 50, 32, 58, 24, 107, 90, 82, 0, 57, 115, 32, 98, 74, 8, 72, 10,
            93, 21, 104, 68, 66, 16, 99, 80, 2, 85, 20, 62, 110,
        ],
    ),
    (
        (OperationKind::AutoContrast, 0.0, Interpolation::Nearest),
        [
            0, 90, 172, 38, 131, 210, 152, 254, 60, 79, 175, 251, 82, 179, 254, 62, 158, 235, 120, 220, 27,
            254, 80, 162, 201, 22, 108, 224, 46, 131, 125, 226, 33, 203, 24, 110, 92, 190, 0, 58, 153, 231,
            101, 199, 8, 188, 8, 96, 21, 113, 193, 195, 15, 102, 180, 0, 88, 242, 66, 150,
        ],
    ),
    (
        (OperationKind::Equalize, 0.0, Interpolation::Nearest),
        [
            0, 83, 166, 37, 120, 203, 148, 231, 58, 77, 160, 243, 80, 163, 246, 61, 144, 227, 117, 200, 27,
            247, 74, 157, 195, 22, 105, 217, 44, 127, 122, 205, 32, 197, 24, 107, 90, 173, 0, 57, 140, 223,
            98, 181, 8, 183, 10, 93, 21, 104, 187, 189, 16, 99, 175, 2, 85, 235, 62, 145,
        ],
    ),
    (
        (OperationKind::Invert, 0.0, Interpolation::Nearest),
        [
            255, 172, 89, 218, 135, 52, 107, 24, 197, 178, 95, 12, 175, 92, 9, 194, 111, 28, 138, 55, 228, 8,
            181, 98, 60, 233, 150, 38, 211, 128, 133, 50, 223, 58, 231, 148, 165, 82, 255, 198, 115, 32, 157,
            74, 247, 72, 245, 162, 234, 151, 68, 66, 239, 156, 80, 253, 170, 20, 193, 110,
        ],
    ),
];
