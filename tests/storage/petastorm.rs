//! The schema that Petastorm keeps beside the files of a data set: where it is searched, and what is read for
//! it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fault_server::{FaultServer, Operation};
use forebay::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use forebay::arrow::datatypes::{DataType, Float32Type, Schema};
use forebay::column::{Tensor, TensorFormat};
use forebay::petastorm::{Codec, Dtype, Unischema, schema};
use forebay::{Dataset, ErrorKind, LoaderBuilder, Result};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::data::{PREFIX, copy, name_of};
use crate::kit::*;
use crate::skipped::skipped;

const NAME: &str = "_common_metadata";

const KEY: &str = "dataset-toolkit.unischema.v1";

/// The pickle of a schema with one image; its bytes are not text.
const PHOTOS: &[u8] = b"\x80\x02cpetastorm.unischema\nUnischema\n)\x81}(U\x05_nameU\x06PhotosU\x07_fields\
    ccollections\nOrderedDict\n)RU\x05imagecpetastorm.unischema\nUnischemaField\n(U\x05imagecnumpy\nuint8\n\
    NNK\x03\x87cpetastorm.codecs\nCompressedImageCodec\n)\x81}(U\x0c_image_codecU\x05.jpegU\x08_qualityKPub\
    \x89t\x81sub.";

/// A schema with boxes, whose number differs from row to row.
const BOXES: &[u8] = b"\x80\x02cpetastorm.unischema\nUnischema\n)\x81}(U\x05_nameU\x05BoxesU\x07_fields\
    ccollections\nOrderedDict\n)RU\x05boxescpetastorm.unischema\nUnischemaField\n(U\x05boxescnumpy\nfloat32\n\
    NK\x04\x86cpetastorm.codecs\nNdarrayCodec\n)\x81\x89t\x81sub.";

/// Writes a file without rows that has `value` under `key`.
fn write(path: &Path, key: &str, value: &[u8]) {
    let text = "?".repeat(value.len());
    let pairs = vec![KeyValue::new("before".to_owned(), None), KeyValue::new(key.to_owned(), text.clone())];
    let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs)).build();
    let columns = Arc::new(Schema::empty());
    ArrowWriter::try_new(File::create(path).unwrap(), columns, Some(properties)).unwrap().close().unwrap();
    // The crate takes only values that are text, so the bytes replace a text of the same length.
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(text.len()).position(|found| found == text.as_bytes()).unwrap();
    bytes[at..at + value.len()].copy_from_slice(value);
    fs::write(path, bytes).unwrap();
}

/// Returns the schema of local locations.
fn local(locations: Vec<PathBuf>) -> Result<Option<Unischema>> {
    schema(locations, &Default::default())
}

#[test]
fn the_schema_is_found_from_the_folder_a_glob_and_named_files() {
    let bucket = copy();
    let folder = bucket.path().join(PREFIX);
    let named = |files: &[usize]| files.iter().map(|file| folder.join(name_of(*file))).collect::<Vec<_>>();
    let locations = [vec![folder.clone()], vec![folder.join("*.parquet")], named(&[0]), named(&[3, 1])];
    for location in locations.clone() {
        assert_eq!(local(location).unwrap(), None);
    }
    write(&folder.join(NAME), "another", PHOTOS);
    assert_eq!(local(vec![folder.clone()]).unwrap(), None, "a file without the key");
    write(&folder.join(NAME), KEY, PHOTOS);
    for location in locations {
        let schema = local(location).unwrap().unwrap();
        assert_eq!(schema.name, "Photos");
        let image = schema.field("image").unwrap();
        assert_eq!((image.dtype, &*image.shape), (Dtype::UInt8, &[None, None, Some(3)][..]));
        assert_eq!(
            image.codec,
            Some(Codec::CompressedImage { format: "jpeg".to_owned(), quality: Some(80) })
        );
    }
    assert_eq!(local(vec![bucket.path().to_owned()]).unwrap(), None, "that of a folder below is not its own");
    assert_eq!(local(vec![folder.join("none")]).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn an_error_names_the_file() {
    let bucket = copy();
    let folder = bucket.path().join(PREFIX);
    let refused = || local(vec![folder.clone()]).unwrap_err();
    let file = folder.join(NAME);
    let place = || refused().place().file.as_deref().map(PathBuf::from);

    write(&file, KEY, b"\x80\x02cos\nsystem\n.");
    assert_eq!(refused().kind(), ErrorKind::Unsupported);
    assert!(refused().to_string().contains("os.system"), "{}", refused());
    assert_eq!(place(), Some(file.clone()));

    write(&file, KEY, PHOTOS);
    let whole = fs::read(&file).unwrap();
    for broken in [&[][..], b"hello", &whole[..whole.len() - 9], &[&whole[..4], &whole[30..]].concat()] {
        fs::write(&file, broken).unwrap();
        assert_eq!(refused().kind(), ErrorKind::Corrupt, "{}", refused());
        assert_eq!(place(), Some(file.clone()));
    }
}

#[test]
fn folders_of_one_schema_are_read_together_and_others_refused() {
    let (one, other) = (copy(), copy());
    let folders = [&one, &other].map(|bucket| bucket.path().join(PREFIX));
    folders.iter().for_each(|folder| write(&folder.join(NAME), KEY, PHOTOS));
    assert_eq!(local(folders.to_vec()).unwrap().unwrap().name, "Photos");

    let at = PHOTOS.windows(6).position(|found| found == b"Photos").unwrap();
    let drawn = [&PHOTOS[..at], b"Drawns", &PHOTOS[at + 6..]].concat();
    write(&folders[1].join(NAME), KEY, &drawn);
    let refused = local(folders.to_vec()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("another schema than"), "{refused}");
}

/// Returns the operation and key of each request that a server got, without the second requests for reads
/// that were late, of which there are at most `hedges`.
fn asked(server: &FaultServer, hedges: u64) -> Vec<(Operation, String)> {
    settled(server);
    let others = server.log().into_iter().filter(|asked| asked.operation != Operation::Get);
    others.chain(reads(server, hedges)).map(|asked| (asked.operation, asked.key.clone())).collect()
}

#[test]
fn one_object_is_read_where_the_listing_shows_it_and_none_where_not() {
    let bucket = copy();
    let server = FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    let found = |location: String| {
        settled(&server);
        server.reset();
        let found = schema(location, &options(&server, &[])).unwrap();
        // A schema alone does not say how many second requests were sent for it.
        let gets = asked(&server, u64::MAX).into_iter().filter(|(operation, _)| *operation == Operation::Get);
        (found.map(|schema| schema.name), gets.map(|(_, key)| key).collect::<Vec<_>>())
    };
    assert_eq!(found(url()), (None, Vec::new()));
    write(&bucket.path().join(PREFIX).join(NAME), KEY, PHOTOS);
    let key = format!("{PREFIX}/{NAME}");
    for location in [url(), format!("{}*.parquet", url()), format!("{}{}", url(), name_of(2))] {
        assert_eq!(found(location), (Some("Photos".to_owned()), vec![key.clone()]));
    }

    // Opening the data set does not request the schema's object. The first loader does, later ones do not.
    server.reset();
    let dataset = open(&server, &[]).unwrap();
    let of_schema =
        || asked(&server, dataset.traffic().hedges).iter().filter(|(_, asked)| *asked == key).count();
    assert_eq!(of_schema(), 0);
    for _ in 0..2 {
        dataset.loader().build().unwrap();
        assert_eq!(of_schema(), 1);
    }
    assert_eq!(dataset.petastorm_schema().unwrap().unwrap().name, "Photos");
    assert_eq!(of_schema(), 1);
    server.reset();
    open(&server, &[]).unwrap().loader().as_stored("*").build().unwrap();
    assert_eq!(of_schema(), 0, "no column is to be decoded");
}

/// Writes numpy cells of float32 boxes; each row has as many boxes as its number.
fn write_boxes(folder: &Path) {
    let cells = (0..4u16).map(|boxes| {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({boxes}, 4), }}\n");
        let values = (0..boxes * 4).flat_map(|value| f32::from(value).to_le_bytes());
        let length = (header.len() as u16).to_le_bytes();
        let start = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
        start.into_iter().chain(values).collect::<Vec<u8>>()
    });
    let cells: ArrayRef = Arc::new(BinaryArray::from_iter_values(cells));
    let rows = RecordBatch::try_from_iter([("boxes", cells)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(folder.join("a.parquet")).unwrap(), rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_loader_decodes_columns_as_the_schema_says_unless_it_is_told_not_to() {
    let folder = tempfile::tempdir().unwrap();
    write_boxes(folder.path());
    let first = |builder: fn(LoaderBuilder) -> LoaderBuilder| {
        let loader = builder(Dataset::open(folder.path())?.loader()).build()?;
        let batch = loader.epoch(0).next().unwrap()?;
        Ok::<_, forebay::Error>((loader.schema().clone(), batch.column(0).clone()))
    };
    let (schema, _) = first(|builder| builder).unwrap();
    assert_eq!(schema.field(0).data_type(), &DataType::LargeBinary, "without a schema");

    write(&folder.path().join(NAME), KEY, BOXES);
    let (schema, column) = first(|builder| builder).unwrap();
    assert_eq!(schema.field(0).data_type(), column.data_type());
    let lists = column.as_list::<i64>();
    assert_eq!(lists.value_offsets(), [0, 0, 1, 3, 6]);
    let boxes = lists.values().as_fixed_size_list();
    assert_eq!(boxes.value_length(), 4);
    let numbers = boxes.values().as_primitive::<Float32Type>().values();
    assert_eq!((numbers.len(), &numbers[4..8]), (24, &[0.0, 1.0, 2.0, 3.0][..]));

    let (schema, _) = first(|builder| builder.as_stored("boxes")).unwrap();
    assert_eq!(schema.field(0).data_type(), &DataType::LargeBinary);
    let tensor = |builder: LoaderBuilder| {
        builder.decode_tensor("boxes", Tensor::new(DataType::Float32, [1, 4]).format(TensorFormat::Npy))
    };
    let refused = first(tensor).unwrap_err();
    assert_eq!((refused.kind(), refused.place().row), (ErrorKind::BadRow, Some(0)), "{refused}");
}

#[test]
fn a_loader_whose_schema_is_broken_says_how_to_read_without_it() {
    let folder = tempfile::tempdir().unwrap();
    write_boxes(folder.path());
    let file = folder.path().join(NAME);
    write(&file, KEY, b"\x80\x02cos\nsystem\n.");
    let dataset = Dataset::open(folder.path()).unwrap();
    let refused = dataset.loader().build().unwrap_err();
    assert_eq!(refused.place().file.as_deref(), file.to_str());
    assert!(
        refused.to_string().ends_with("to read without the schema, give decode={\"*\": None})"),
        "{refused}"
    );
    dataset.loader().as_stored("*").build().unwrap();
}

/// Reads data sets that earlier releases of Petastorm wrote, if the machine has them.
#[test]
fn schemas_of_earlier_releases_are_read() {
    let data = std::env::var_os("FOREBAY_TEST_DATA").unwrap_or_default();
    let Ok(releases) = fs::read_dir(Path::new(&data).join("petastorm-legacy")) else {
        return skipped("FOREBAY_TEST_DATA has no petastorm-legacy");
    };
    for release in releases.map(|release| release.unwrap().path()).filter(|path| path.is_dir()) {
        let schema = local(vec![release.clone()]).unwrap().unwrap();
        assert_eq!(schema.name, "TestSchema", "{}", release.display());
        assert_eq!(schema.field("matrix").unwrap().codec, Some(Codec::Ndarray));
    }
}
