//! `--workload`: runs the loader against the demand of a published benchmark (a number of rows that it needs
//! within a given time), on generated data of the published shape.
//!
//! | workload | accelerator | demand | published in |
//! |---|---|---|---|
//! | mlperf-flux | B200 | 48 samples of 2,164,832 B in 1.35 s, Parquet | MLPerf Storage v3.0, `flux_b200.yaml` |
//! | mlperf-dlrm | B200 | 16,384 rows of 160 B (of 761 B stored) in 0.375 ms, Parquet | the same, `dlrm_b200.yaml` |
//! | mlperf-retinanet | B200 | 24 JPEG of 322,957 B in 47.55 ms | the same, `retinanet_b200.yaml` |
//! | resnet50 | H100, A100 | 400 JPEG of 114,660 B in 0.224 s and in 0.435 s | MLPerf Storage v1.0, `resnet50_{h100,a100}.yaml` |
//! | resnet18 | A100 | 10,032 images/s in batches of 1,024 | ffcv-imagenet: 88 epochs of ImageNet in 187.3 minutes |
//!
//! The files are in `configs/dlio/workload/` of github.com/mlcommons/storage, and `rn18_configs/` of
//! github.com/libffcv/ffcv-imagenet. In MLPerf Storage v3.0 the first two workloads are previews, which are
//! not for submissions.
//!
//! Three things are not published and were chosen here. The width, height and quality of the pictures give
//! files of the published mean size. The transform is a random resized crop of 224 for ResNet, which has the
//! decoded size that MLPerf Storage states (150,528 B), and 800×800 for RetinaNet, as in MLPerf Training.
//! Pictures are stored in row groups of Parquet, while the published benchmarks store them as single files.
//!
//! A run shows whether this loader meets such a demand. It is not an MLPerf result: among other things,
//! MLPerf requires a data set five times as large as the machine's memory.

mod data;
mod resolve;

use std::path::PathBuf;

use forebay_base::{Error, Result};
use forebay_image::Image;
use serde::Serialize;

pub(super) use self::resolve::resolve;
use crate::synth::{EMBEDDING_BYTES, FEATURE_BYTES, RowKind, features_read};
use crate::units::{self, bytes, count, percent};

/// The options of a published demand.
#[derive(clap::Args, Clone)]
pub(super) struct WorkloadOptions {
    /// Run a published demand on data of the published shape instead of a URL; the data is made once
    #[arg(long, value_enum, conflicts_with_all = ["locations", "batch_size", "step_ms", "columns", "image", "clip"])]
    workload: Option<Workload>,
    /// Accelerator of the demand [default: the first published one: b200 for mlperf-*, h100 for resnet50,
    /// a100 for resnet18]
    #[arg(long, value_enum, requires = "workload")]
    accelerator: Option<Device>,
    /// Multiply the demand: each step takes the published time divided by this
    #[arg(long, default_value_t = 1.0, requires = "workload", value_parser = units::parse_factor)]
    scale: f64,
    /// Folder that keeps the data of workloads [default: forebay-workloads in the folder for temporary files]
    #[arg(long, requires = "workload", value_parser = units::local_path())]
    dir: Option<PathBuf>,
    /// Rows of data to make [default: 288 for Flux, 393,216 for DLRM, 1,200 for RetinaNet, 4,000 for ResNet]
    #[arg(long, requires = "workload", value_parser = units::whole::<u64, 1>)]
    rows: Option<u64>,
}

impl WorkloadOptions {
    /// Whether a workload was named.
    pub(super) fn is_given(&self) -> bool {
        self.workload.is_some()
    }

    /// Refuses the options of a workload if none is given. clap's `requires` does not do this: it waives a
    /// required argument that conflicts with a given one, and `--workload` conflicts with a URL.
    pub(super) fn check(&self) -> Result<()> {
        let of_workloads = [
            ("--accelerator", self.accelerator.is_some()),
            ("--scale", self.scale != 1.0),
            ("--dir", self.dir.is_some()),
            ("--rows", self.rows.is_some()),
        ];
        match of_workloads.iter().find(|(_, is_given)| *is_given && !self.is_given()) {
            Some((option, _)) => Err(Error::invalid(format!("{option} without --workload"))
                .hint("it is an option of a workload: name one, or leave it out")),
            None => Ok(()),
        }
    }
}

/// A published workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Workload {
    /// Text to image: samples of embeddings, 2.2 MB each
    MlperfFlux,
    /// Recommendation: rows of 200 columns, of which 44 are read
    MlperfDlrm,
    /// Detection: JPEG of 323 KB, decoded to 800x800
    MlperfRetinanet,
    /// Classification: JPEG of 115 KB, random crops of 224
    Resnet50,
    /// Classification, for a model that is five times as fast
    Resnet18,
}

/// An accelerator for which a demand was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Device {
    B200,
    H100,
    A100,
}

/// The demand of one accelerator: it needs `rows` rows every `seconds` seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AcceleratorDemand {
    rows: u64,
    seconds: f64,
}

/// The demand of the chosen workload and accelerator, which the report compares with the measured rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct HeldDemand {
    workload: Workload,
    accelerator: Device,
    scale: f64,
    published_step_ms: f64,
    published_rows_per_second: f64,
    /// The demand of each rank: the published rate times the scale.
    demanded_rows_per_second: f64,
    demanded_bytes_per_second: f64,
    /// The least utilisation that MLPerf Storage accepts.
    asked_utilisation: Option<f64>,
}

/// The number of images in ImageNet's training set.
const IMAGENET_IMAGES: f64 = 1_281_167.0;

impl Workload {
    /// The published demands, the most relevant first.
    fn demands(self) -> Vec<(Device, AcceleratorDemand)> {
        let demand = |device, rows, seconds| (device, AcceleratorDemand { rows, seconds });
        match self {
            Workload::MlperfFlux => vec![demand(Device::B200, 48, 1.35)],
            Workload::MlperfDlrm => vec![demand(Device::B200, 16_384, 0.375e-3)],
            Workload::MlperfRetinanet => vec![demand(Device::B200, 24, 47.55e-3)],
            Workload::Resnet50 => {
                vec![demand(Device::H100, 400, 0.224), demand(Device::A100, 400, 0.435)]
            }
            Workload::Resnet18 => {
                let (epochs, minutes, batch) = (88.0, 187.3, 1_024);
                let images_per_second = epochs * IMAGENET_IMAGES / (minutes * 60.0);
                vec![demand(Device::A100, batch, batch as f64 / images_per_second)]
            }
        }
    }

    /// The utilisation that MLPerf Storage requires; ffcv requires none.
    fn asked_utilisation(self) -> Option<f64> {
        match self {
            Workload::MlperfFlux | Workload::Resnet50 => Some(0.90),
            Workload::MlperfRetinanet => Some(0.85),
            Workload::MlperfDlrm => Some(0.70),
            Workload::Resnet18 => None,
        }
    }

    /// The size of a row in the columns that the workload reads, in bytes.
    fn bytes_per_row(self) -> u64 {
        match self {
            Workload::MlperfFlux => EMBEDDING_BYTES,
            Workload::MlperfDlrm => FEATURE_BYTES,
            Workload::MlperfRetinanet => 322_957,
            Workload::Resnet50 | Workload::Resnet18 => 114_660,
        }
    }

    fn data(self, rows: Option<u64>) -> data::Set {
        let (name, kind, extent, usual, rows_per_group) = match self {
            Workload::MlperfFlux => {
                ("flux", RowKind::Embeddings, (1, 1), 288, RowKind::Embeddings.rows_per_group())
            }
            Workload::MlperfDlrm => {
                ("dlrm", RowKind::Features, (1, 1), 393_216, RowKind::Features.rows_per_group())
            }
            Workload::MlperfRetinanet => ("retinanet", RowKind::Jpeg, (972, 729), 1_200, 50),
            Workload::Resnet50 | Workload::Resnet18 => ("imagenet", RowKind::Jpeg, (528, 396), 4_000, 100),
        };
        data::Set { name, kind, extent, rows: rows.unwrap_or(usual), rows_per_group }
    }

    fn columns(self) -> Option<Vec<String>> {
        (self == Workload::MlperfDlrm).then(features_read)
    }

    fn image(self) -> Option<Image> {
        match self {
            Workload::MlperfFlux | Workload::MlperfDlrm => None,
            Workload::MlperfRetinanet => Some(Image::resize(800, 800)),
            Workload::Resnet50 | Workload::Resnet18 => Some(Image::random_resized_crop(224).flip()),
        }
    }
}

/// The demand of a workload on a device, or its first demand if no device is given.
fn demanded(workload: Workload, device: Option<Device>) -> Result<(Device, AcceleratorDemand)> {
    let demands = workload.demands();
    demands.iter().copied().find(|(of, _)| device.is_none_or(|device| device == *of)).ok_or_else(|| {
        let published: Vec<String> =
            demands.iter().map(|(device, _)| format!("--accelerator {}", name(device))).collect();
        Error::invalid(format!("there is no published demand for {}", name(&workload)))
            .hint(format!("{} has a published demand", published.join(" or ")))
    })
}

/// The name of the value on the command line.
fn name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

impl std::fmt::Display for HeldDemand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} on {} at {}: {} rows/s, {}/s",
            name(&self.workload),
            name(&self.accelerator),
            match self.scale {
                1.0 => "the published rate".to_owned(),
                scale => format!("{scale} times the published rate"),
            },
            count(self.demanded_rows_per_second.round() as u64),
            bytes(self.demanded_bytes_per_second as u64)
        )?;
        match self.asked_utilisation {
            Some(asked) => write!(f, "; MLPerf Storage asks that it be busy {}", percent(asked)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_are_those_that_were_published() {
        let rate = |workload, device| {
            let (_, demand) = demanded(workload, device).unwrap();
            (demand.rows as f64 / demand.seconds).round()
        };
        assert_eq!(rate(Workload::Resnet50, None), 1_786.0);
        assert_eq!(rate(Workload::Resnet50, Some(Device::A100)), 920.0);
        assert_eq!(rate(Workload::Resnet18, None), 10_032.0);
        assert_eq!(rate(Workload::MlperfRetinanet, None), 505.0);
        assert_eq!(rate(Workload::MlperfFlux, None), 36.0);
        assert_eq!(rate(Workload::MlperfDlrm, None), 43_690_667.0);
    }

    #[test]
    fn what_nobody_published_is_refused_with_what_was() {
        let error = demanded(Workload::MlperfFlux, Some(Device::H100)).unwrap_err().to_string();
        assert!(error.contains("mlperf-flux") && error.contains("b200"), "{error}");
    }
}
