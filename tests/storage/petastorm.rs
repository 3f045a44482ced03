//! The schema that Petastorm keeps beside the files of a data set: where it is searched, and what is read for
//! it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fault_server::{FaultServer, Operation};
use forebay::arrow::datatypes::Schema;
use forebay::petastorm::{Codec, Dtype, Unischema, schema};
use forebay::{ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::data::{PREFIX, copy, name_of};
use crate::kit::*;

const NAME: &str = "_common_metadata";

const KEY: &str = "dataset-toolkit.unischema.v1";

/// The pickle of a schema with one image; its bytes are not text.
const PHOTOS: &[u8] = b"\x80\x02cpetastorm.unischema\nUnischema\n)\x81}(U\x05_nameU\x06PhotosU\x07_fields\
    ccollections\nOrderedDict\n)RU\x05imagecpetastorm.unischema\nUnischemaField\n(U\x05imagecnumpy\nuint8\n\
    NNK\x03\x87cpetastorm.codecs\nCompressedImageCodec\n)\x81}(U\x0c_image_codecU\x05.jpegU\x08_qualityKPub\
    \x89t\x81sub.";

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

/// The schema of local locations.
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

/// The operation and key of each request that a server got.
fn asked(server: &FaultServer) -> Vec<(Operation, String)> {
    settled(server);
    let log = server.log();
    log.into_iter().map(|asked| (asked.operation, asked.key.clone())).collect()
}

#[test]
fn one_object_is_read_where_the_listing_shows_it_and_none_where_not() {
    let bucket = copy();
    let server = FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    let found = |location: String| {
        settled(&server);
        server.reset();
        let found = schema(location, &options(&server, &[])).unwrap();
        let gets = asked(&server).into_iter().filter(|(operation, _)| *operation == Operation::Get);
        (found.map(|schema| schema.name), gets.map(|(_, key)| key).collect::<Vec<_>>())
    };
    assert_eq!(found(url()), (None, Vec::new()));
    write(&bucket.path().join(PREFIX).join(NAME), KEY, PHOTOS);
    let key = format!("{PREFIX}/{NAME}");
    for location in [url(), format!("{}*.parquet", url()), format!("{}{}", url(), name_of(2))] {
        assert_eq!(found(location), (Some("Photos".to_owned()), vec![key.clone()]));
    }

    // Loaders do not request the object.
    server.reset();
    open(&server, &[]).unwrap();
    assert!(asked(&server).iter().all(|(_, asked)| *asked != key));
}

/// Data sets that releases of Petastorm wrote, if they are available.
#[test]
fn schemas_of_earlier_releases_are_read() {
    let Some(data) = std::env::var_os("FOREBAY_TEST_DATA") else { return };
    let Ok(releases) = fs::read_dir(Path::new(&data).join("petastorm-legacy")) else { return };
    for release in releases.map(|release| release.unwrap().path()).filter(|path| path.is_dir()) {
        let schema = local(vec![release.clone()]).unwrap().unwrap();
        assert_eq!(schema.name, "TestSchema", "{}", release.display());
        assert_eq!(schema.field("matrix").unwrap().codec, Some(Codec::Ndarray));
    }
}
