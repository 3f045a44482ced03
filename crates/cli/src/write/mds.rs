//! Reads MosaicML's shards (MDS), as its `streaming` library writes them.
//!
//! ```text
//! shard   count u32 │ offsets u32 × (count + 1) │ the shard's form as JSON │ sample │ sample │ …
//! sample  sizes u32 × columns without a fixed size │ values of all columns
//! ```
//!
//! All numbers are little-endian. The format is described at
//! <https://docs.mosaicml.com/projects/streaming/en/stable/preparing_datasets/dataset_format.html>.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use forebay_arrow::array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use serde::Deserialize;

use super::folder::{DiskFile, FoundKind};
use super::read::{beside, place, read_file};
use super::sizes::BATCH_ROWS;
use super::source::TableSource;

/// The shards in a folder and in the folders below it.
pub(super) struct MdsShards {
    /// The file of each shard, in the order of `shards`.
    files: Vec<DiskFile>,
    shards: Vec<Shard>,
    columns: Vec<MdsColumn>,
    schema: SchemaRef,
}

/// A shard as the index describes it.
#[derive(Clone, Deserialize, PartialEq)]
struct Shard {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<usize>>,
    compression: Option<String>,
    format: String,
    raw_data: ShardFile,
    zip_data: Option<ShardFile>,
    samples: usize,
}

#[derive(Clone, Deserialize, PartialEq)]
struct ShardFile {
    basename: String,
    bytes: u64,
}

#[derive(Deserialize)]
struct MdsIndex {
    shards: Vec<Shard>,
}

/// A column of the written Parquet files.
struct MdsColumn {
    name: String,
    encoding: Encoding,
    /// The size of every value in bytes; `None` if each sample states the size of its value.
    bytes: Option<usize>,
}

/// The form of the values of a column.
#[derive(Clone)]
enum Encoding {
    Text,
    Bytes,
    Number(MdsNumber),
    /// A tensor whose shape and number of elements are the same in all rows.
    Tensor(MdsNumber, usize),
}

/// A type of numbers.
#[derive(Clone, Copy, PartialEq)]
enum MdsNumber {
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
}

impl MdsShards {
    /// Reads the index files among the files that were found.
    pub(super) fn open(found: &[DiskFile]) -> Result<Self> {
        let indexes = found.iter().filter(|file| FoundKind::of_name(&file.relative) == Some(FoundKind::Mds));
        let (mut files, mut shards): (Vec<DiskFile>, Vec<Shard>) = (Vec::new(), Vec::new());
        for index in indexes {
            let about: MdsIndex = serde_json::from_slice(&read_file(&index.path)?).map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("this is not the index of MDS: {error}"))
                    .at(place(&index.path))
            })?;
            for shard in about.shards {
                let (path, bytes) = shard.stored(&index.path)?;
                let relative = format!("{}/{}", index.relative, shard.raw_data.basename);
                files.push(DiskFile { path, relative, bytes });
                shards.push(shard);
            }
        }
        let Some(first) = shards.first() else {
            return Err(Error::invalid("the index lists no shards").hint("there is nothing to write"));
        };
        let same = |shard: &Shard| {
            shard.column_names == first.column_names && shard.column_encodings == first.column_encodings
        };
        if let Some(other) = shards.iter().position(|shard| !same(shard)) {
            let error = Error::invalid("the columns of this shard are others than those of the first one");
            return Err(error.at(place(&files[other].path)).hint("write them as two data sets"));
        }
        let columns = first.columns().map_err(|error| error.at(place(&files[0].path)))?;
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new(&column.name, column.encoding.data_type(), false))
            .collect();
        Ok(MdsShards { files, shards, columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// Makes a batch of these samples, which come from one shard.
    fn batch(&self, samples: &[&[u8]]) -> Result<RecordBatch> {
        let mut values: Vec<Vec<&[u8]>> = vec![Vec::with_capacity(samples.len()); self.columns.len()];
        for sample in samples {
            let mut sizes = *sample;
            let variable = self.columns.iter().filter(|column| column.bytes.is_none()).count();
            let mut rest = cut(&mut sizes, variable * size_of::<u32>())
                .map(|sizes_of| (sizes_of, sizes))
                .ok_or_else(too_short)?;
            for (column, values) in self.columns.iter().zip(&mut values) {
                let bytes = match column.bytes {
                    Some(bytes) => bytes,
                    None => number(cut(&mut rest.0, size_of::<u32>()).ok_or_else(too_short)?) as usize,
                };
                values.push(cut(&mut rest.1, bytes).ok_or_else(too_short)?);
            }
        }
        let arrays = self.columns.iter().zip(values).map(|(column, values)| {
            column
                .encoding
                .array(&values)
                .map_err(|error| error.at(Place::default().column(column.name.as_str())))
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        RecordBatch::try_new(self.schema.clone(), arrays).or_fail()
    }
}

impl TableSource for MdsShards {
    fn kind(&self) -> &'static str {
        "MDS shards"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[DiskFile] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let (path, shard) = (&self.files[file].path, &self.shards[file]);
        let stored = read_file(path)?;
        let mut raw = Vec::new();
        let limit = shard.raw_data.bytes.saturating_add(1);
        let unpacked = match path.extension().and_then(|ending| ending.to_str()) {
            Some("zstd") => {
                zstd::Decoder::new(&stored[..]).and_then(|decoder| decoder.take(limit).read_to_end(&mut raw))
            }
            Some("gz") => MultiGzDecoder::new(&stored[..]).take(limit).read_to_end(&mut raw),
            _ => {
                raw = stored;
                Ok(raw.len())
            }
        };
        unpacked.map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("the shard cannot be unpacked: {error}"))
                .hint("copy it again")
        })?;
        if raw.len() as u64 != shard.raw_data.bytes {
            let cause =
                format!("the shard has {} bytes, and its index says {}", raw.len(), shard.raw_data.bytes);
            return Err(Error::new(ErrorKind::Corrupt, cause).hint("copy it again"));
        }
        let samples = divide(&raw)?;
        if samples.len() != shard.samples {
            let cause = format!("the shard has {} rows, and its index says {}", samples.len(), shard.samples);
            return Err(Error::new(ErrorKind::Corrupt, cause).hint("copy it again"));
        }
        samples.chunks(BATCH_ROWS).try_for_each(|samples| take(self.batch(samples)?))
    }
}

impl Shard {
    /// The path and the size of the shard's file. The compressed file is used only if there is no
    /// uncompressed one.
    fn stored(&self, index: &Path) -> Result<(PathBuf, u64)> {
        if self.format != "mds" {
            let cause = format!("the index lists shards of the format {:?}", self.format);
            return Err(Error::new(ErrorKind::Unsupported, cause).at(place(index)).hint("MDS is read"));
        }
        let files = [Some(&self.raw_data), self.zip_data.as_ref()];
        for file in files.into_iter().flatten() {
            if Path::new(&file.basename).components().count() != 1 || file.basename == ".." {
                let error = Error::new(
                    ErrorKind::Corrupt,
                    format!("a shard is not beside its index: {}", file.basename),
                );
                return Err(error.at(place(index)));
            }
            let path = beside(index, &file.basename);
            let ending = Path::new(&file.basename).extension().and_then(|ending| ending.to_str());
            if path.exists() && !matches!(ending, Some("mds" | "zstd" | "gz")) {
                let cause = format!("shards with the ending {:?} are not read", ending.unwrap_or_default());
                let error = Error::new(ErrorKind::Unsupported, cause).at(place(&path));
                return Err(error.hint("unpack them: zstd and gz are read"));
            }
            if path.exists() {
                return Ok((path, file.bytes));
            }
        }
        let known =
            self.compression.as_ref().map_or(String::new(), |codec| format!(", or compressed as {codec}"));
        let error = Error::new(ErrorKind::NotFound, format!("this shard of the index is missing{known}"));
        Err(error.at(place(&beside(index, &self.raw_data.basename))))
    }

    fn columns(&self) -> Result<Vec<MdsColumn>> {
        let Shard { column_names, column_encodings, column_sizes, .. } = self;
        let names: HashSet<&String> = column_names.iter().collect();
        if names.len() != column_names.len()
            || column_encodings.len() != column_names.len()
            || column_sizes.len() != column_names.len()
        {
            return Err(Error::new(ErrorKind::Corrupt, "the index does not describe each column once"));
        }
        let columns = column_names.iter().zip(column_encodings).zip(column_sizes);
        columns
            .map(|((name, encoding), bytes)| {
                let encoding = Encoding::of_text(encoding).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Unsupported,
                        format!("values in the form {encoding:?} are not read"),
                    )
                    .at(Place::default().column(name.as_str()))
                    .hint("str, bytes, json, jpeg, png, numbers and arrays of one shape are")
                })?;
                if encoding.fixed_bytes().is_some() && encoding.fixed_bytes() != *bytes {
                    return Err(Error::new(
                        ErrorKind::Corrupt,
                        "the index gives values of another size than theirs",
                    )
                    .at(Place::default().column(name.as_str())));
                }
                Ok(MdsColumn { name: name.clone(), encoding, bytes: *bytes })
            })
            .collect()
    }
}

impl Encoding {
    fn of_text(text: &str) -> Option<Self> {
        Some(match text {
            "str" | "json" | "str_int" | "str_float" | "str_decimal" => Encoding::Text,
            "bytes" | "jpeg" | "png" => Encoding::Bytes,
            "int" => Encoding::Number(MdsNumber::Int64),
            _ => match text.strip_prefix("ndarray:") {
                None => Encoding::Number(MdsNumber::of_text(text)?),
                Some(form) => {
                    let (of, shape) = form.split_once(':')?;
                    let mut sides = shape.split(',').map(|side| side.trim().parse::<usize>().ok());
                    let length = sides.try_fold(1_usize, |length, side| length.checked_mul(side?))?;
                    Encoding::Tensor(MdsNumber::of_text(of)?, length)
                }
            },
        })
    }

    /// The size of a value in bytes, if all values have the same size.
    fn fixed_bytes(&self) -> Option<usize> {
        match self {
            Encoding::Text | Encoding::Bytes => None,
            Encoding::Number(of) => Some(of.bytes()),
            Encoding::Tensor(of, length) => of.bytes().checked_mul(*length),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Encoding::Text => DataType::Utf8,
            Encoding::Bytes => DataType::Binary,
            Encoding::Number(of) => of.data_type(),
            Encoding::Tensor(of, length) => DataType::FixedSizeList(item(*of), *length as i32),
        }
    }

    fn array(&self, values: &[&[u8]]) -> Result<ArrayRef> {
        Ok(match self {
            Encoding::Bytes => Arc::new(BinaryArray::from_iter_values(values)),
            Encoding::Text => {
                let texts = values.iter().map(|value| std::str::from_utf8(value));
                let texts: Vec<&str> = texts
                    .collect::<Result<_, _>>()
                    .map_err(|_| Error::new(ErrorKind::Corrupt, "a text is not UTF-8"))?;
                Arc::new(StringArray::from_iter_values(texts))
            }
            Encoding::Number(of) => of.array(&values.concat()),
            Encoding::Tensor(of, length) => {
                let items = of.array(&values.concat());
                Arc::new(FixedSizeListArray::try_new(item(*of), *length as i32, items, None).or_fail()?)
            }
        })
    }
}

fn item(of: MdsNumber) -> Arc<Field> {
    Arc::new(Field::new_list_field(of.data_type(), false))
}

impl MdsNumber {
    fn of_text(text: &str) -> Option<Self> {
        Some(match text {
            "int8" => MdsNumber::Int8,
            "int16" => MdsNumber::Int16,
            "int32" => MdsNumber::Int32,
            "int64" => MdsNumber::Int64,
            "uint8" => MdsNumber::UInt8,
            "uint16" => MdsNumber::UInt16,
            "uint32" => MdsNumber::UInt32,
            "uint64" => MdsNumber::UInt64,
            "float32" => MdsNumber::Float32,
            "float64" => MdsNumber::Float64,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            MdsNumber::Int8 | MdsNumber::UInt8 => 1,
            MdsNumber::Int16 | MdsNumber::UInt16 => 2,
            MdsNumber::Int32 | MdsNumber::UInt32 | MdsNumber::Float32 => 4,
            MdsNumber::Int64 | MdsNumber::UInt64 | MdsNumber::Float64 => 8,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            MdsNumber::Int8 => DataType::Int8,
            MdsNumber::Int16 => DataType::Int16,
            MdsNumber::Int32 => DataType::Int32,
            MdsNumber::Int64 => DataType::Int64,
            MdsNumber::UInt8 => DataType::UInt8,
            MdsNumber::UInt16 => DataType::UInt16,
            MdsNumber::UInt32 => DataType::UInt32,
            MdsNumber::UInt64 => DataType::UInt64,
            MdsNumber::Float32 => DataType::Float32,
            MdsNumber::Float64 => DataType::Float64,
        }
    }

    /// Makes an array of the numbers whose bytes follow each other in `bytes`.
    fn array(self, bytes: &[u8]) -> ArrayRef {
        macro_rules! numbers {
            ($array:ty, $of:ty) => {{
                let parts = bytes.chunks_exact(size_of::<$of>());
                let numbers = parts.map(|part| <$of>::from_le_bytes(part.try_into().unwrap_or_default()));
                Arc::new(<$array>::from_iter_values(numbers))
            }};
        }
        match self {
            MdsNumber::Int8 => numbers!(Int8Array, i8),
            MdsNumber::Int16 => numbers!(Int16Array, i16),
            MdsNumber::Int32 => numbers!(Int32Array, i32),
            MdsNumber::Int64 => numbers!(Int64Array, i64),
            MdsNumber::UInt8 => numbers!(UInt8Array, u8),
            MdsNumber::UInt16 => numbers!(UInt16Array, u16),
            MdsNumber::UInt32 => numbers!(UInt32Array, u32),
            MdsNumber::UInt64 => numbers!(UInt64Array, u64),
            MdsNumber::Float32 => numbers!(Float32Array, f32),
            MdsNumber::Float64 => numbers!(Float64Array, f64),
        }
    }
}

/// Splits an uncompressed shard into its samples.
fn divide(raw: &[u8]) -> Result<Vec<&[u8]>> {
    let mut head = raw;
    let count = number(cut(&mut head, size_of::<u32>()).ok_or_else(too_short)?) as usize;
    let mut offsets = cut(&mut head, (count + 1) * size_of::<u32>()).ok_or_else(too_short)?;
    let mut start = number(cut(&mut offsets, size_of::<u32>()).ok_or_else(too_short)?) as usize;
    let sample = |_| {
        let end = number(cut(&mut offsets, size_of::<u32>()).ok_or_else(too_short)?) as usize;
        let sample = raw.get(start..end).ok_or_else(too_short)?;
        start = end;
        Ok(sample)
    };
    (0..count).map(sample).collect()
}

/// Takes the first `bytes` bytes of `rest` away; `None` if it has fewer.
fn cut<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(bytes)?;
    *rest = others;
    Some(first)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

fn too_short() -> Error {
    Error::new(ErrorKind::Corrupt, "the shard ends within a row").hint("copy it again")
}
