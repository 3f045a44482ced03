//! Writes a `forebay.Image` as the Python code that creates it.

use forebay::Image as Spec;
use forebay::image::{Layout, Size};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;

/// The Python code that creates an equal image. Most arguments with their default values are left out.
pub(super) fn python(image: &Spec) -> PyResult<String> {
    let spec: Value = serde_json::to_value(image).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let pair = |value: &Value| format!("({}, {})", value[0], value[1]);
    // The library holds these numbers as 32-bit floats. They are printed as such, because as 64-bit floats
    // they would show digits that the user did not write.
    let single = |value: &Value| value.as_f64().unwrap_or(f64::NAN) as f32;
    let triple = |value: &Value| {
        format!("({:?}, {:?}, {:?})", single(&value[0]), single(&value[1]), single(&value[2]))
    };
    let (height, width) = (&spec["size"]["height"], &spec["size"]["width"]);
    let size = if height == width { height.to_string() } else { format!("({height}, {width})") };
    let mut code = String::from("forebay.Image.");
    let of_canvas = |code: &mut String| {
        if !spec["fill"].is_null() {
            code.push_str(&format!(", fill={}", triple(&spec["fill"])));
        }
        if !spec["centered"].is_null() {
            code.push_str(", centered=True");
        }
        code.push(')');
    };
    match spec["framing"].as_str() {
        None if !spec["framing"]["random_iou_crop"].is_null() => code.push_str(&iou_crop(&spec, &size)),
        None => {
            code.push_str(&unresized(&spec["framing"], &size));
            of_canvas(&mut code);
        }
        Some("scale_jitter") => {
            code.push_str(&format!("scale_jitter({size}"));
            if !spec["scale"].is_null() {
                code.push_str(&format!(", scale_range={}", pair(&spec["scale"])));
            }
            of_canvas(&mut code);
        }
        Some("resize") => code.push_str(&format!("resize({height}, {width})")),
        Some("center_crop") => {
            code.push_str(&format!("center_crop({size}"));
            if !spec["shorter"].is_null() {
                code.push_str(&format!(", resize={}", spec["shorter"]));
            }
            code.push(')');
        }
        Some("fit") => {
            code.push_str(&format!("fit({size}"));
            if !spec["shorter"].is_null() {
                code.push_str(&format!(", resize={}", spec["shorter"]));
            }
            of_canvas(&mut code);
        }
        framing => {
            code.push_str(&format!("{}({size}", framing.unwrap_or("?")));
            for name in ["scale", "ratio"] {
                if !spec[name].is_null() {
                    code.push_str(&format!(", {name}={}", pair(&spec[name])));
                }
            }
            code.push(')');
        }
    }
    if !spec["ragged"].is_null() {
        code.push_str(".ragged()");
    }
    if let Some(raw) = image.raw_pixels() {
        let (Size { height, width }, channels) = (raw.size(), raw.channels());
        code.push_str(&match raw.pixel_layout() {
            Layout::Nhwc => format!(".raw(({height}, {width}, {channels}))"),
            layout => format!(".raw(({channels}, {height}, {width}), layout=\"{layout}\")"),
        });
    }
    if !spec["resampling"].is_null() {
        code.push_str(&format!(".resampling({})", spec["resampling"]));
    }
    let defaults = serde_json::to_value(Spec::resize(1, 1)).unwrap_or_default();
    let differs = |name: &str| spec[name] != defaults[name];
    if differs("flip") {
        code.push_str(&format!(".flip({})", spec["flip"]));
    }
    if !spec["vertical_flip"].is_null() {
        code.push_str(&format!(".vertical_flip({})", spec["vertical_flip"]));
    }
    let rotation = &spec["rotation"];
    if !rotation.is_null() {
        let (degrees, fill) = (pair(&rotation["degrees"]), &rotation["fill"]);
        let fill = format!("({}, {}, {})", fill[0], fill[1], fill[2]);
        code.push_str(&format!(".random_rotation({degrees}, {}, {fill})", rotation["interpolation"]));
    }
    let augment = &spec["auto_augment"];
    if !augment.is_null() {
        let policy = &augment["policy"];
        code.push_str(&if let Some(name) = policy.as_str() {
            format!(".auto_augment({name:?}")
        } else if !policy["rand"].is_null() {
            let numbers =
                ["num_ops", "magnitude", "num_magnitude_bins"].map(|name| policy["rand"][name].to_string());
            format!(".rand_augment({}", numbers.join(", "))
        } else if !policy["aug_mix"].is_null() {
            let mix = &policy["aug_mix"];
            let numbers =
                ["severity", "mixture_width", "chain_depth", "alpha"].map(|name| match &mix[name] {
                    Value::Null => "-1".to_owned(),
                    number => number.to_string(),
                });
            let all_ops = if mix["all_ops"] == Value::Bool(false) { "False" } else { "True" };
            format!(".aug_mix({}, {all_ops}", numbers.join(", "))
        } else {
            format!(".trivial_augment_wide({}", policy["trivial_wide"]["num_magnitude_bins"])
        });
        let fill = &augment["fill"];
        let fill = format!("({}, {}, {})", fill[0], fill[1], fill[2]);
        code.push_str(&format!(", interpolation={}, fill={fill})", augment["interpolation"]));
    }
    let jitter = &spec["color_jitter"];
    if !jitter.is_null() {
        let amounts = ["brightness", "contrast", "saturation", "hue"].map(|name| jitter[name].to_string());
        code.push_str(&format!(".color_jitter({}, p={})", amounts.join(", "), jitter["p"]));
    }
    if !spec["random_grayscale"].is_null() {
        code.push_str(&format!(".random_grayscale({})", spec["random_grayscale"]));
    }
    let blur = &spec["gaussian_blur"];
    if !blur.is_null() {
        let (kernel, sigma) = (&blur["kernel_size"], pair(&blur["sigma"]));
        code.push_str(&format!(".gaussian_blur({kernel}, {sigma}, p={})", blur["p"]));
    }
    let steps = &spec["steps"];
    for (name, method) in [
        ("invert", "random_invert"),
        ("posterize", "random_posterize"),
        ("solarize", "random_solarize"),
        ("sharpness", "random_adjust_sharpness"),
        ("autocontrast", "random_autocontrast"),
        ("equalize", "random_equalize"),
    ] {
        match &steps[name] {
            Value::Null => {}
            Value::Array(both) => code.push_str(&format!(".{method}({}, {})", both[0], both[1])),
            p => code.push_str(&format!(".{method}({p})")),
        }
    }
    let erasing = &spec["random_erasing"];
    if !erasing.is_null() {
        let (scale, ratio) = (pair(&erasing["scale"]), pair(&erasing["ratio"]));
        let value = triple(&erasing["value"]);
        code.push_str(&format!(".random_erasing({}, {scale}, {ratio}, {value})", erasing["p"]));
    }
    if differs("grayscale") {
        code.push_str(".grayscale()");
    }
    if !spec["normalize"].is_null() {
        let normalize = &spec["normalize"];
        code.push_str(&format!(".normalize({}, {})", triple(&normalize["mean"]), triple(&normalize["std"])));
    }
    for name in ["dtype", "layout"] {
        if differs(name) {
            code.push_str(&format!(".{name}({})", spec[name]));
        }
    }
    if !spec["bit_depth"].is_null() {
        code.push_str(&format!(".bit_depth({})", spec["bit_depth"]));
    }
    if differs("exif_orientation") {
        code.push_str(".exif_orientation()");
    }
    if differs("max_pixels") {
        code.push_str(&format!(".max_pixels({})", spec["max_pixels"]));
    }
    if !spec["emit_geometry"].is_null() {
        code.push_str(".emit_geometry()");
    }
    if let Some(of) = image.follows() {
        code.push_str(&format!(".of({})", Value::from(of)));
    }
    Ok(code)
}

/// The code of a call of `random_crop` or `random_shortest_size`. It ends before the arguments for the
/// canvas, such as `fill`, which the caller adds.
fn unresized(framing: &Value, size: &str) -> String {
    let sizes = &framing["random_shortest_size"];
    if !sizes.is_null() {
        return format!("random_shortest_size({}, {size}", sizes["min_size"]);
    }
    let crop = &framing["random_crop"];
    let mut code = format!("random_crop({size}");
    let padding =
        ["left", "top", "right", "bottom"].map(|side| crop["padding"][side].as_u64().unwrap_or_default());
    if padding != [0; 4] {
        let [left, top, right, bottom] = padding;
        code.push_str(&format!(", padding=({left}, {top}, {right}, {bottom})"));
    }
    if crop["mode"] != "constant" {
        code.push_str(&format!(", padding_mode={}", crop["mode"]));
    }
    code
}

/// The call of `random_iou_crop`.
fn iou_crop(spec: &Value, size: &str) -> String {
    let crop = &spec["framing"]["random_iou_crop"];
    let mut code = format!("random_iou_crop({size}, boxes={}", crop["boxes"]);
    let (scale, ratio) = (&spec["scale"], &spec["ratio"]);
    for (name, number) in [
        ("min_scale", &scale[0]),
        ("max_scale", &scale[1]),
        ("min_aspect_ratio", &ratio[0]),
        ("max_aspect_ratio", &ratio[1]),
    ] {
        if !number.is_null() {
            code.push_str(&format!(", {name}={number}"));
        }
    }
    code.push_str(&format!(", sampler_options={}, trials={})", crop["sampler_options"], crop["trials"]));
    code
}
