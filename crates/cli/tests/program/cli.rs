//! Runs the program as a user does, and checks its results, refusals and output streams.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop, and say where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, BinaryArray, ListArray, RecordBatch};
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{DataType, Field};
use forebay_image::encode_jpeg;
use parquet::arrow::ArrowWriter;
use parquet::data_type::FixedLenByteArrayType;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;
use tempfile::TempDir;

const ROWS: u64 = 60;

fn forebay<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Runs `line`, split at blanks, which must succeed. Returns its standard output.
fn succeed(line: &str) -> String {
    let args: Vec<&str> = line.split_whitespace().collect();
    let output = forebay(&args);
    assert!(output.status.success(), "forebay {line}\n{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the one JSON object that `line --json -` writes.
fn json(line: &str) -> Value {
    let out = succeed(&format!("{line} --json -"));
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}\n{out}"));
    assert!(value.is_object(), "{line}: {out}");
    value
}

/// Runs `line`, which must be refused as bad input. Returns the error message.
fn refused(line: &str) -> String {
    let args: Vec<&str> = line.split_whitespace().collect();
    let output = forebay(&args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "forebay {line}\n{stderr}");
    assert!(output.stdout.is_empty(), "forebay {line} wrote to standard output");
    assert!(stderr.starts_with("forebay: error: "), "forebay {line}\n{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "forebay {line} is one sentence:\n{stderr}");
    for noise in ["panicked", "backtrace", "RUST_"] {
        assert!(!stderr.contains(noise), "forebay {line}\n{stderr}");
    }
    stderr
}

/// Makes a folder of small pictures, in two files of three row groups each.
fn pictures() -> (TempDir, PathBuf) {
    let temp = TempDir::new().unwrap();
    let dir = temp.path().join("pictures");
    synth(&dir, "");
    (temp, dir)
}

fn synth(dir: &Path, more: &str) -> String {
    let dir = dir.display();
    succeed(&format!("synth {dir} --rows {ROWS} --image 64x48 --rows-per-group 10 --rows-per-file 30 {more}"))
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        })
        .collect()
}

#[test]
fn synth_writes_the_same_bytes_for_the_same_seed_whatever_the_threads() {
    let temp = TempDir::new().unwrap();
    let write = |name: &str, more: &str| {
        let dir = temp.path().join(name);
        synth(&dir, more);
        contents(&dir)
    };
    let first = write("a", "--seed 3 --threads 1");
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        ["part-00000-of-00002.parquet", "part-00001-of-00002.parquet"]
    );
    assert!(first == write("b", "--seed 3 --threads 4"), "the same seed, other bytes");
    assert!(first != write("c", "--seed 4"), "another seed, the same bytes");
    let forms = [("d", "--png"), ("e", "--table"), ("f", "--tokens 16")];
    for (name, form) in forms {
        let again = format!("{name}2");
        assert!(write(name, form) == write(&again, form), "{form}: the same seed, other bytes");
    }
}

#[test]
fn synth_does_not_write_into_a_folder_that_holds_something() {
    let (_temp, dir) = pictures();
    let before = contents(&dir);
    let again = format!("synth {} --rows 5", dir.display());
    assert!(refused(&again).contains("--force"));
    assert_eq!(before, contents(&dir));
    std::fs::write(dir.join("notes.txt"), "the user's own").unwrap();
    succeed(&format!("{again} --image 16x16 --force"));
    // `synth --force` has replaced the earlier data set, left no temporary files, and kept the file that it
    // did not write.
    assert_eq!(contents(&dir).keys().collect::<Vec<_>>(), ["notes.txt", "part-00000-of-00001.parquet"]);
}

#[test]
fn every_form_of_synth_can_be_read() {
    let temp = TempDir::new().unwrap();
    for (form, columns) in [("", 2), ("--png", 2), ("--table", 40), ("--tokens 16", 1)] {
        let dir = temp.path().join(format!("set{columns}{}", form.len()));
        synth(&dir, form);
        let report = json(&format!("bench {} --batch-size 16", dir.display()));
        assert_eq!(report["rows"], ROWS, "{form}");
        let report = json(&format!("inspect {}", dir.display()));
        assert_eq!(report["columns"].as_array().unwrap().len(), columns, "{form}");
    }
}

#[test]
fn synth_takes_the_images_of_a_folder_as_they_are() {
    let temp = TempDir::new().unwrap();
    let photos = temp.path().join("photos");
    for (name, bytes) in
        [("cats/deep/a.JPG", "one"), ("cats/b.png", "two"), ("dogs/c.jpeg", "three"), ("dogs/x.txt", "")]
    {
        std::fs::create_dir_all(photos.join(name).parent().unwrap()).unwrap();
        std::fs::write(photos.join(name), bytes).unwrap();
    }
    let (from, to) = (photos.display(), temp.path().join("set"));
    let output = forebay(&format!("synth {} --from {from}", to.display()).split(' ').collect::<Vec<_>>());
    assert!(text(&output.stdout).starts_with("3 images in 1 file"), "{output:?}");
    assert!(text(&output.stderr).contains("passed over, as no images by their names: 1 file"), "{output:?}");
    assert_eq!(
        rows(&to),
        [("one".to_owned(), 0), ("three".to_owned(), 1), ("two".to_owned(), 0)],
        "each as it is, with the class of its folder"
    );
    succeed(&format!("synth {} --from {from} --rows 7 --force", to.display()));
    let again = rows(&to);
    assert_eq!(again.len(), 7);
    assert!(
        again.iter().filter(|row| row.0 == "one").count() >= 2,
        "again where there are too few: {again:?}"
    );
    let new = temp.path().join("new");
    let error = refused(&format!("synth {} --from {}", new.display(), to.display()));
    assert!(error.contains("there are no images in this folder"), "{error}");
    assert!(refused(&format!("synth {} --from {from} --classes 3", new.display())).contains("--classes"));
    assert!(refused(&format!("synth {}", new.display())).contains("--rows"));
}

/// Reads the image bytes (as text) and the label of each row in the Parquet files of `dir`, sorted.
fn rows(dir: &Path) -> Vec<(String, i64)> {
    let mut rows = Vec::new();
    for path in contents(dir).keys().map(|name| dir.join(name)) {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        rows.extend(reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            (text(row.get_bytes(0).unwrap().data()), row.get_long(1).unwrap())
        }));
    }
    rows.sort();
    rows
}

#[test]
fn pack_writes_coefficients_and_unpack_takes_them_back() {
    let (temp, dir) = pictures();
    let [packed, again] = ["packed", "again"].map(|name| temp.path().join(name));
    let told = json(&format!("pack --coefficients {} {}", dir.display(), packed.display()));
    assert_eq!((&told["rows"], &told["columns"][0]["changed"]), (&Value::from(ROWS), &Value::from(ROWS)));
    assert!(succeed(&format!("inspect {}", packed.display())).contains("JPEG coefficients"));
    let said = succeed(&format!("unpack {} {} --threads 1", packed.display(), again.display()));
    assert!(said.contains("image: 60 images as JPEG, "), "{said}");
    let error = refused(&format!("unpack {} {}", packed.display(), again.display()));
    assert!(error.contains("the folder is not empty"), "{error}");
    let error = refused(&format!("pack {} {}", dir.display(), temp.path().join("new").display()));
    assert!(error.contains("--coefficients"), "{error}");
    let new = temp.path().join("new").display().to_string();
    let error = refused(&format!("pack --coefficients {} {new} --columns nothing", dir.display()));
    assert!(error.contains("there is no column \"nothing\" (the columns are "), "{error}");
    let error = refused(&format!("plan {} --order stored --window-rows 10", dir.display()));
    assert!(error.contains("--window-rows with --order stored (leave out --window-rows"), "{error}");
    let error = refused(&format!("pack --coefficients {} {new} --columns image,image", dir.display()));
    assert!(error.contains("column \"image\" is listed twice, again at place 2"), "{error}");
}

#[test]
fn inspect_counts_what_synth_wrote() {
    let (_temp, dir) = pictures();
    let report = json(&format!("inspect {}", dir.display()));
    assert_eq!((&report["files"], &report["rows"]), (&2.into(), &ROWS.into()));
    assert_eq!(report["row_groups"]["total"], 6);
    let image = &report["columns"][0];
    assert_eq!(image["name"], "image");
    assert_eq!(image["type"], "binary");
    assert_eq!(image["page_index"], true);
    assert_eq!(image["codecs"], serde_json::json!(["uncompressed"]));
    let on_disk: u64 = contents(&dir).values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!(report["file_bytes"], on_disk);
    let people = succeed(&format!("inspect {}", dir.display()));
    assert!(people.contains("6 row groups") && people.contains("image"), "{people}");
}

/// The cells are nulls of a type that takes 1 MiB a value: the file stores almost nothing, but decoded rows
/// take that memory in the shuffle window.
#[test]
fn inspect_holds_row_groups_against_the_window_as_they_are_once_decoded() {
    const ROWS: usize = 100;
    let temp = TempDir::new().unwrap();
    let schema = "message rows { optional fixed_len_byte_array(1048576) cell; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(temp.path().join("wide.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    for _ in 0..12 {
        let mut group = writer.next_row_group().unwrap();
        let mut cells = group.next_column().unwrap().unwrap();
        cells.typed::<FixedLenByteArrayType>().write_batch(&[], Some(&[0; ROWS]), None).unwrap();
        cells.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    let people = succeed(&format!("inspect {}", temp.path().display()));
    assert!(
        people.contains("of 104.9 MB once decoded are too large") && people.contains("only 10."),
        "{people}"
    );
}

/// Writes a Parquet file whose name and column names hold control characters. One of its columns has an
/// unsupported type, and one has images.
fn hostile(dir: &Path) -> PathBuf {
    use forebay::arrow::array::{
        Array, ArrayRef, BinaryArray, Int64Array, IntervalYearMonthArray, RecordBatch, StringArray,
        StructArray,
    };
    use forebay::arrow::datatypes::{DataType, Field, IntervalUnit};
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    let inner = Arc::new(Field::new("x\u{1b}[2J", DataType::Interval(IntervalUnit::YearMonth), false));
    let spans = IntervalYearMonthArray::from_iter_values(0..40);
    let odd: ArrayRef = Arc::new(StructArray::from(vec![(inner, Arc::new(spans) as _)]));
    let part = |name, array: ArrayRef| (Arc::new(Field::new(name, array.data_type().clone(), false)), array);
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..40).map(|_| b"x")));
    let paths: ArrayRef = Arc::new(StringArray::from_iter_values((0..40).map(|_| "x")));
    let image: ArrayRef = Arc::new(StructArray::from(vec![part("bytes", bytes), part("path", paths)]));
    let columns = [("id", ints.clone()), (HOSTILE, ints), ("odd\u{2066}", odd), ("image", image)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = dir.join("bad\u{202e}.parquet");
    let properties = WriterProperties::builder()
        .set_created_by("writer\u{9b}31m\r\nfingerprint forged".to_owned())
        .build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

const HOSTILE: &str = "a\u{1b}[31mb\u{7}\u{202e}c\nd";

/// Whether `text` holds a control character that a terminal would act on, apart from line ends.
fn is_obeyed(text: &str) -> bool {
    text.contains(|character| character != '\n' && forebay_base::error::is_obeyed(character))
}

#[test]
fn names_from_a_file_do_not_reach_the_terminal_as_they_are() {
    let temp = TempDir::new().unwrap();
    let path = hostile(temp.path());
    let run = |verb: &str, more: &[&str]| {
        let output = forebay(&[&[verb, path.to_str().unwrap()], more].concat());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(!is_obeyed(&out) && !is_obeyed(&err), "{verb} {more:?}\n{out:?}\n{err:?}");
        (output.status.code(), out, err)
    };
    let (status, out, _) = run("inspect", &[]);
    assert_eq!(status, Some(0));
    assert!(out.contains("a\\u{1b}[31mb\\u{7}\\u{202e}c\\nd"), "{out}");
    assert!(out.contains("writer\\u{9b}31m\\r\\nfingerprint forged"), "{out}");
    let (_, out, _) = run("inspect", &["--json", "-"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["columns"][1]["name"], HOSTILE, "JSON holds the name as it is");
    let named = ["--columns", HOSTILE, "--batch-size", "8"];
    for verb in ["plan", "bench"] {
        assert_eq!(run(verb, &named).0, Some(0), "{verb}");
        let (status, _, err) = run(verb, &["--columns", "ida"]);
        assert!(status == Some(2) && err.contains("\\u{202e}"), "{err}");
        let (status, _, err) = run(verb, &[]);
        assert!(status == Some(2) && err.contains("(leave it out with --columns"), "{err}");
    }
}

#[test]
fn inspect_names_the_columns_that_a_loader_refuses() {
    let temp = TempDir::new().unwrap();
    hostile(temp.path());
    let report = json(&format!("inspect {}", temp.path().display()));
    let refused = report["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 1, "{report}");
    assert_eq!(refused[0]["column"], "odd\u{2066}");
    assert!(refused[0]["why"].as_str().unwrap().contains("is not read"), "{report}");
    let people = succeed(&format!("inspect {}", temp.path().display()));
    assert!(people.contains("odd\\u{2066}") && people.contains("(leave it out with --columns"), "{people}");
    let (_temp, dir) = pictures();
    assert!(!succeed(&format!("inspect {}", dir.display())).contains("Refused"));
}

#[test]
fn a_run_of_one_batch_says_that_it_is_too_short() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    let line = format!("bench {dir} --image image=rrc32 --batch-size 8 --max-batches 1");
    assert_eq!(json(&line)["too_short"], true);
    assert!(succeed(&line).contains("give it more --seconds or --epochs"));
    // A run is long enough if the wait for its first batch takes at most a quarter of it. These 24 steps of
    // 50 ms may be too few on a slow machine, and then nothing is checked.
    let long = json(&format!("bench {dir} --batch-size 8 --step-ms 50 --epochs 3 --seconds 60"));
    let (first, whole) = (&long["seconds_to_first_batch"], &long["seconds"]);
    let is_short = first.as_f64().unwrap() > 0.25 * whole.as_f64().unwrap();
    assert!(is_short || long["too_short"] == false, "{long}");
}

#[test]
fn the_batch_size_is_the_librarys_where_none_is_said() {
    let (_temp, dir) = pictures();
    let steps = ROWS.div_ceil(forebay::LoaderSpec::BATCH_SIZE);
    assert_eq!(json(&format!("plan {}", dir.display()))["steps"], steps);
    let default = format!("[default: {}]", forebay::LoaderSpec::BATCH_SIZE);
    for verb in ["plan", "bench", "doctor"] {
        assert!(succeed(&format!("{verb} --help")).contains(&default), "{verb}");
    }
}

#[test]
fn plan_hands_each_row_to_one_rank_and_equal_steps_to_all() {
    let (_temp, dir) = pictures();
    for world in [1, 2, 3, 7] {
        let report = json(&format!("plan {} --world {world} --batch-size 4", dir.display()));
        let ranks = report["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), world);
        let sum = |what: &str| ranks.iter().map(|rank| rank[what].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("rows") - sum("padded"), ROWS);
        assert!(ranks.iter().all(|rank| rank["steps"] == report["steps"]), "{report}");
    }
    let people = succeed(&format!("plan {} --world 2", dir.display()));
    assert!(people.contains("2 ranks") && people.contains("repeated"), "{people}");
}

#[test]
fn a_split_of_a_folder_of_the_hub_is_inspected_planned_and_fed() {
    let temp = TempDir::new().unwrap();
    let dir = temp.path().join("shelf");
    std::fs::create_dir(&dir).unwrap();
    for (config, split, rows) in [("en", "train", 30), ("en", "test", 10), ("fr", "train", 20)] {
        let made = temp.path().join("made");
        succeed(&format!("synth {} --rows {rows} --image 64x48 --rows-per-group 10", made.display()));
        std::fs::create_dir_all(dir.join(config)).unwrap();
        let (name, _) = contents(&made).into_iter().next().unwrap();
        std::fs::rename(made.join(name), dir.join(config).join(format!("{split}.parquet"))).unwrap();
        std::fs::remove_dir_all(made).unwrap();
    }
    let dir = dir.display();
    for (words, rows) in
        [("--split train --config en", 30), ("--config fr", 20), ("--split test --config en", 10)]
    {
        assert_eq!(json(&format!("inspect {dir} {words}"))["rows"], rows, "{words}");
        assert_eq!(json(&format!("plan {dir} {words}"))["rows"], rows, "{words}");
        assert_eq!(json(&format!("bench {dir} {words} --batch-size 10 --epochs 1"))["rows"], rows, "{words}");
    }
    for (words, said) in [
        ("--split dev --config en", "show no split \"dev\""),
        ("--split train+test", "must be the name of one split"),
        ("--split train", "in several folders: en, fr (choose one of them with --config, such as"),
        ("--config de", "the folders with Parquet files are en, fr"),
    ] {
        let error = refused(&format!("inspect {dir} {words}"));
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn plan_says_how_the_first_batches_of_a_run_are_mixed() {
    let temp = TempDir::new().unwrap();
    let dir = temp.path().display();
    succeed(&format!("synth {dir} --table --rows 4000 --rows-per-group 100 --force"));
    let plan = |epoch: u32| format!("plan {dir} --batch-size 20 --epoch {epoch}");
    let first = &json(&plan(0))["ranks"][0];
    let [of_first, full] =
        ["row_groups_of_first_batch", "full_window_step"].map(|field| first[field].as_u64().unwrap());
    // The window holds all 40 row groups, and the first batch of a run is mixed from an eighth of them.
    assert!(of_first == 5 && (100..140).contains(&full), "{first}");
    let line = format!(
        "the first batch is of {of_first}: the window deals rows while it fills, until step {full}\n"
    );
    let people = succeed(&plan(0));
    assert!(people.contains(&line), "{people}");
    let later = succeed(&plan(1));
    assert!(!later.contains("the first batch is"), "{later}");
    assert_eq!(json(&plan(1))["ranks"][0]["full_window_step"], 0);
}

#[test]
fn bench_delivers_every_row_and_names_a_bottleneck() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    for until in ["rows", "decode", "batch"] {
        let report =
            json(&format!("bench {dir} --image image=rrc32 --batch-size 8 --epochs 2 --until {until}"));
        assert_eq!(report["rows"], 2 * ROWS, "{until}");
        let images = if until == "rows" { 0 } else { 2 * ROWS };
        assert_eq!(report["images"], images, "{until}");
        assert!(report["bottleneck"].as_str().unwrap().ends_with('.'), "{report}");
        assert!(report["seconds_to_first_batch"].as_f64().unwrap() > 0.0);
        assert!(report["epoch_gap_ms"].as_f64().unwrap() >= 0.0);
    }
    let report = json(&format!("bench {dir} --until fetch"));
    assert_eq!((&report["rows"], &report["row_groups"]), (&ROWS.into(), &6.into()));
    let people = succeed(&format!("bench {dir} --image image=center32 --float --batch-size 8"));
    for word in ["throughput", "first batch", "next()", "bottleneck"] {
        assert!(people.contains(word), "{word} is missing:\n{people}");
    }
}

#[test]
fn bench_says_that_images_were_not_decoded_and_how_they_are() {
    let (_temp, dir) = pictures();
    let line = format!("bench {} --batch-size 10", dir.display());
    let said = succeed(&line);
    assert!(said.contains("Nothing was decoded") && said.contains("--image image=rrc224"), "{said}");
    for more in ["--image image=rrc32", "--columns label", "--until rows"] {
        let said = succeed(&format!("{line} {more}"));
        assert!(!said.contains("Nothing was decoded"), "{more}: {said}");
    }
}

/// Makes a folder of rows that have lists of two to four images, in a column with a dictionary.
fn clips() -> (TempDir, PathBuf) {
    let temp = TempDir::new().unwrap();
    let image = |seed: usize| {
        let mut state = seed as u32;
        let noise = (0..48 * 32 * 3).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        encode_jpeg(&noise.collect::<Vec<_>>(), 48, 32, 90).unwrap()
    };
    let lengths: Vec<usize> = (0..24).map(|row| 2 + row % 3).collect();
    let images = BinaryArray::from_iter_values((0..lengths.iter().sum()).map(image));
    let item = Arc::new(Field::new_list_field(DataType::Binary, true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(images), None);
    let batch = RecordBatch::try_from_iter([("frames", Arc::new(lists) as ArrayRef)]).unwrap();
    let file = std::fs::File::create(temp.path().join("clips.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let dir = temp.path().to_owned();
    (temp, dir)
}

#[test]
fn lists_of_images_are_decoded_to_clips() {
    let (_temp, dir) = clips();
    let line = format!("bench {} --batch-size 4 --memory 64MB", dir.display());
    let said = succeed(&line);
    assert!(said.contains("--clip frames=rrc224,frames=8"), "{said}");
    assert_eq!(json(&line)["undecoded"], serde_json::json!(["frames"]));
    // With a stride of 2, lists of two, three and four images give one, two and two.
    for (how, images) in [
        ("rrc32,frames=2,layout=NCTHW --float", 48),
        ("center32,at_most=4,stride=2", 40),
        ("rrc32,frames=8,draws=alone", 192),
    ] {
        let report = json(&format!("{line} --clip frames={how}"));
        assert_eq!((&report["rows"], &report["images"]), (&24.into(), &images.into()), "{how}: {report}");
        assert_eq!(report["undecoded"], serde_json::json!([]));
    }
    let checked = json(&format!("{line} --clip frames=rrc32,frames=2 --check-order"));
    assert_eq!(checked["order_check"]["rows"]["once"], 24, "{checked}");
    assert!(json(&format!("plan {} --clip frames=rrc32,frames=2", dir.display()))["ranks"].is_array());
    let advice = json(&format!("inspect {}", dir.display()))["advice"].to_string();
    assert!(advice.contains("frames.list.item\\\" begins with a dictionary"), "{advice}");
    for (more, words) in [
        ("--clip frames=rrc32", "at_most"),
        ("--clip frames=rrc32,frames=0", "frames of 0"),
        ("--clip frames=rrc32,many=2", "is not COLUMN=HOW"),
        ("--clip frames=rrc32,frames=4,frames=5", "frames= is given twice"),
        ("--clip frame=rrc32,frames=2", "frame"),
        ("--clip frames=rrc32,frames=2 --image frames=rrc32", "--clip frames=... is given twice"),
        ("--float", "--clip <COLUMN=HOW>"),
    ] {
        assert!(refused(&format!("{line} {more}")).contains(words), "{more}");
    }
    let (_temp, dir) = pictures();
    // A window lies within one row group. Six row groups of ten rows have seven windows of four rows each.
    let line = format!("bench {} --columns image --window 4 --batch-size 3", dir.display());
    for (how, images) in [("--clip image=rrc32,frames=2", 84), ("--image image=rrc32", 168)] {
        let report = json(&format!("{line} {how}"));
        assert_eq!((&report["rows"], &report["images"]), (&42.into(), &images.into()), "{how}: {report}");
    }
}

#[test]
fn bench_reads_no_more_than_its_epochs() {
    let (_temp, dir) = pictures();
    for more in ["--epochs 1", "--epochs 1 --seconds 60"] {
        let report = json(&format!("bench {} --batch-size 10 --step-ms 20 {more}", dir.display()));
        let of = |key: &str| report["traffic"][key].as_u64().unwrap();
        // `bytes_read` includes the footers of the files.
        assert!(of("bytes_read") < of("bytes_needed") * 3 / 2, "{more}: {}", report["traffic"]);
        assert_eq!(report["epochs"], 1, "{more}");
    }
}

#[test]
fn more_ranks_than_rows_have_a_lane_for_each_row() {
    let (_temp, dir) = pictures();
    let line = format!("plan {} --batch-size 1 --world 100", dir.display());
    let planned = succeed(&line);
    assert_eq!(planned, succeed(&format!("{line} --lanes {ROWS}")), "the default is the number of rows");
    let said = refused(&format!("{line} --lanes 70"));
    assert!(said.contains("(--lanes 60 fits"), "{said}");
}

#[test]
fn bench_simulates_accelerators_that_wait_for_each_other() {
    let (_temp, dir) = pictures();
    let line = format!(
        "bench {} --image image=rrc32 --batch-size 6 --world 2 --step-ms 2 --memory 64MB --epochs 1 --seconds 60",
        dir.display()
    );
    let report = json(&line);
    assert_eq!((&report["rows"], &report["steps"]), (&ROWS.into(), &5.into()));
    let simulated = &report["accelerator"];
    let ranks = simulated["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 2);
    for rank in ranks {
        let mean = rank["mean"].as_f64().unwrap();
        assert!(mean > 0.0 && mean <= 1.0, "{report}");
    }
    assert!(simulated["margin"].as_f64().unwrap() > 0.0);
    assert_eq!(report["budget_bytes"], 2 * 64_000_000);
    let few = json(&format!("bench {} --batch-size 6 --max-batches 3", dir.display()));
    assert_eq!((&few["steps"], &few["rows"]), (&3.into(), &18.into()));
}

#[test]
fn bench_draws_the_lengths_of_steps_under_pressure() {
    let (_temp, dir) = pictures();
    let line = format!(
        "bench {} --image image=rrc32 --batch-size 6 --step-ms 30 --jitter 0.5 --seed 3 --epochs 4 --seconds 60",
        dir.display()
    );
    let report = json(&format!("{line} --pressure 1"));
    let simulated = &report["accelerator"];
    assert_eq!((&simulated["jitter"], &report["pressure"]), (&0.5.into(), &1.into()));
    // The 40 steps take 15 to 45 ms each, so the run takes at least 40 times 15 ms.
    assert!(report["seconds"].as_f64().unwrap() > 40.0 * 0.015, "{report}");
    assert!(simulated["utilisation_min"].as_f64().unwrap() > 0.0);
    if cfg!(target_os = "linux") {
        // The burner keeps a processor busy for as long as the run lasts. Decoding 240 tiny pictures takes
        // about ten milliseconds.
        let counted = report["cpu_seconds_per_1000_rows"].as_f64().unwrap() * 0.24;
        let lasted = report["seconds"].as_f64().unwrap();
        assert!(counted < 0.5 * lasted, "the burner is counted: {counted} s of {lasted} s");
    }
}

#[test]
fn a_warning_of_several_loaders_comes_once() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    succeed(&format!("index {dir}"));
    let index = format!("{dir}/_forebay_index");
    let mut bytes = std::fs::read(&index).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&index, bytes).unwrap();
    let line = format!("bench {dir} --step-ms 1 --batch-size 6 --epochs 1 --check-order");
    let output = forebay(&line.split_whitespace().collect::<Vec<_>>());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("_forebay_index").count(), 1, "{said}");
}

#[test]
fn bench_counts_epochs_seconds_and_threads() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    let report = json(&format!("bench {dir} --image image=rrc32 --batch-size 6 --epochs 3"));
    let epochs = report["by_epoch"].as_array().unwrap();
    assert_eq!(epochs.len(), 3);
    assert!(epochs.iter().all(|epoch| epoch["rows"] == ROWS), "{report}");
    let sum = |what: &str| epochs.iter().map(|epoch| epoch[what].as_u64().unwrap()).sum::<u64>();
    assert!(sum("bytes_read") > 0 && sum("bytes_read") <= report["traffic"]["bytes_read"].as_u64().unwrap());
    assert_eq!(report["cold_rows_per_second"], epochs[0]["rows_per_second"]);
    assert!(report["warm_rows_per_second"].as_f64().unwrap() > 0.0);
    let bins = report["next_histogram"].as_array().unwrap();
    let calls: u64 = bins.iter().map(|bin| bin["calls"].as_u64().unwrap()).sum();
    assert_eq!(calls, report["steps"].as_u64().unwrap() - 1, "all calls but the first");
    // A run may end before all bytes that it requested arrive, so this ratio can be less than 1.
    assert!(report["read_amplification"].as_f64().unwrap() > 0.0);

    // An epoch takes a fifth of a second on an idle machine.
    let timed = json(&format!("bench {dir} --image image=rrc32 --batch-size 6 --step-ms 20 --seconds 10"));
    let (seconds, epochs) = (timed["seconds"].as_f64().unwrap(), timed["epochs"].as_u64().unwrap());
    assert!((9.9..120.0).contains(&seconds) && epochs > 1, "{timed}");
    assert_eq!(timed["by_epoch"].as_array().unwrap().len() as u64, epochs);
}

#[test]
fn bench_sweeps_over_threads() {
    let temp = TempDir::new().unwrap();
    let dir = temp.path().join("table");
    synth(&dir, "--table");
    // Without --seconds, each point has five seconds for its second batch.
    let report = json(&format!("bench {} --batch-size 6 --thread-sweep 1,2", dir.display()));
    let points = report["thread_sweep"].as_array().unwrap();
    let threads: Vec<_> = points.iter().map(|point| point["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 2]);
    assert!(points.iter().all(|point| point["rows_per_second"].as_f64().unwrap() > 0.0), "{report}");
}

#[test]
fn bench_checks_that_each_row_comes_once() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    let check = |more: &str| {
        let line =
            format!("bench {dir} --image image=rrc32 --batch-size 7 --max-batches 1 --check-order {more}");
        json(&line)["order_check"].clone()
    };
    let whole = check("--classes-of label");
    let rows = &whole["rows"];
    assert_eq!((&rows["once"], &rows["twice"], &rows["never"]), (&ROWS.into(), &0.into(), &0.into()));
    assert_eq!((&rows["unknown"], &rows["as_planned"]), (&0.into(), &true.into()));
    let classes = &whole["classes"];
    assert_eq!((&classes["column"], &classes["classes"]), (&"label".into(), &10.into()));
    let (mean, expected) =
        (classes["mean_per_batch"].as_f64().unwrap(), classes["expected_per_batch"].as_f64().unwrap());
    assert!(mean > 1.0 && mean <= 7.0 && (mean - expected).abs() < 2.0, "{classes}");
    // Two ranks with batches of 7 take 14 rows in a step, so `--drop-last` leaves out the last 4 of 60 rows.
    // Without `--drop-last` every row is delivered, and some rows may be repeated.
    let dropped = &check("--drop-last --world 2")["rows"];
    assert_eq!((&dropped["once"], &dropped["never"]), (&56.into(), &4.into()));
    assert_eq!(dropped["as_planned"], true);
    let padded = &check("--world 7")["rows"];
    assert_eq!((&padded["never"], &padded["as_planned"]), (&0.into(), &true.into()), "{padded}");
    let people = succeed(&format!("bench {dir} --check-order --order exact"));
    assert!(people.contains("60 rows once, 0 twice, 0 never, as planned"), "{people}");
    assert!(refused(&format!("bench {dir} --classes-of lable")).contains("lable"));
}

#[test]
fn a_published_demand_is_met_on_data_that_is_made_once() {
    let temp = TempDir::new().unwrap();
    let line = format!(
        "bench --workload mlperf-dlrm --rows 32768 --scale 0.01 --epochs 2 --seconds 60 --dir {}",
        temp.path().display()
    );
    let report = json(&line);
    let (workload, simulated) = (&report["workload"], &report["accelerator"]);
    assert_eq!((&workload["workload"], &workload["accelerator"]), (&"mlperf-dlrm".into(), &"b200".into()));
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&workload["published_step_ms"]) - 0.375).abs() < 1e-9);
    assert!((number(&simulated["step_ms"]) - 37.5).abs() < 1e-9, "a hundredth of the demand");
    assert!((number(&workload["demanded_rows_per_second"]) - 16_384.0 / 0.0375).abs() < 1.0);
    assert_eq!((&report["batch_size"], &report["steps"]), (&16_384.into(), &4.into()));
    assert_eq!((&report["rows"], &report["order"]), (&65_536.into(), &"window".into()));
    // The workload reads 44 of the data's 200 columns, so it needs fewer bytes than the files have.
    let inspected = json(&format!("inspect {}", temp.path().join("dlrm-32768-v1").display()));
    assert_eq!(inspected["columns"].as_array().unwrap().len(), 200);
    assert!(report["traffic"]["bytes_needed"].as_u64() < inspected["file_bytes"].as_u64());
    let before = contents(&temp.path().join("dlrm-32768-v1"));
    let people = succeed(&line);
    assert!(
        people.starts_with("mlperf-dlrm on b200 at 0.01 times the published rate: 436,907 rows/s"),
        "{people}"
    );
    assert!(before == contents(&temp.path().join("dlrm-32768-v1")), "made anew");
    let left: Vec<_> =
        std::fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["dlrm-32768-v1"]);
    let (file, _) = before.last_key_value().unwrap();
    std::fs::write(temp.path().join("dlrm-32768-v1").join(file), "cut off").unwrap();
    assert!(refused(&line).contains("remove the folder"));
}

#[test]
fn a_demand_that_nobody_published_is_refused() {
    let temp = TempDir::new().unwrap();
    let dir = temp.path().display();
    let refusal = refused(&format!("bench --workload mlperf-flux --accelerator a100 --dir {dir}"));
    assert!(refusal.contains("--accelerator b200"), "{refusal}");
    for line in [
        format!("bench --workload resnet50 --dir {dir} {dir}"),
        format!("bench --workload resnet50 --dir {dir} --step-ms 3"),
        format!("bench --workload resnet50 --dir {dir} --scale 0"),
        format!("bench --workload resnet50 --dir {dir} --rows 399"),
        format!("bench {dir} --scale 0.1"),
        "bench --workload imagenet".to_owned(),
        "bench".to_owned(),
    ] {
        refused(&line);
    }
    assert!(contents(temp.path()).is_empty(), "data was made for nothing");
}

/// A figure as the page shows it, such as "1,234", "97.3 %" or "12.5 ms", in the unit of the JSON.
fn shown_value(text: &str, field: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number: f64 = words[0].replace(',', "").parse().unwrap();
    let unit = match words.get(1).copied() {
        None => 1.0,
        Some("%") => 0.01,
        Some("ns") => 1e-9,
        Some("µs") => 1e-6,
        Some("ms") => 1e-3,
        Some("s" | "B") => 1.0,
        Some("KB") => 1e3,
        Some("MB") => 1e6,
        Some("GB") => 1e9,
        Some(other) => panic!("{field}: unknown unit {other}"),
    };
    let is_time = matches!(words.get(1), Some(&("ns" | "µs" | "ms" | "s")));
    let in_millis = field.ends_with("_ms") || field.starts_with("/next_ms/");
    number * unit * if is_time && in_millis { 1e3 } else { 1.0 }
}

/// The text between the first `open` at or after the byte offset `from` and the next `close`, and the offset
/// of its end.
fn between<'a>(page: &'a str, from: usize, open: &str, close: &str) -> Option<(&'a str, usize)> {
    let start = from + page[from..].find(open)? + open.len();
    let end = start + page[start..].find(close)?;
    Some((&page[start..end], end))
}

#[test]
fn bench_writes_a_page_that_shows_what_its_json_says_and_loads_nothing() {
    let (temp, dir) = pictures();
    let file = temp.path().join("report.html");
    let line = format!(
        "bench {} --image image=rrc32 --batch-size 6 --world 2 --step-ms 60 --epochs 9 --max-batches 37 \
         --check-order --classes-of label --report {} --json {}",
        dir.display(),
        file.display(),
        temp.path().join("report.json").display()
    );
    let people = succeed(&line);
    let page = std::fs::read_to_string(&file).unwrap();
    let (json, _) =
        between(&page, 0, "<script type=\"application/json\" id=\"report\">", "</script>").unwrap();
    let report: Value = serde_json::from_str(json).unwrap();
    let file: Value =
        serde_json::from_slice(&std::fs::read(temp.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report, file, "the page has the JSON of --json");
    assert!(page.contains(&people.lines().last().unwrap().replace('"', "&quot;")), "the verdict");

    let (mut figures, mut at) = (0, 0);
    while let Some((exact, end)) = between(&page, at, "<data value=\"", "\"") {
        let (field, end) = between(&page, end, "data-field=\"", "\"").unwrap();
        let (shown, end) = between(&page, end, ">", "</data>").unwrap();
        at = end;
        let expected = report.pointer(field).and_then(Value::as_f64).unwrap_or_else(|| panic!("{field}"));
        let exact: f64 = exact.parse().unwrap();
        assert!(
            (exact - expected).abs() <= 1e-12 * expected.abs(),
            "{field} is {expected} and given as {exact}"
        );
        let value = shown_value(shown, field);
        assert!(
            (value - expected).abs() <= expected.abs() * 0.06 + 0.006,
            "{field} is {expected} and shown as {shown}"
        );
        figures += 1;
    }
    assert!(figures > 50, "{figures} figures");
    for plot in ["utilisation", "latency", "stages", "epochs"] {
        assert!(page.contains(&format!("<svg id=\"{plot}\"")), "no plot of {plot}");
        assert!(page.contains(&format!("<title id=\"{plot}-title\">")), "{plot} has no title");
    }
    assert!(!page.contains("<svg id=\"threads\""), "nobody asked for a sweep");
    assert!(!page.contains("NaN") && !page.contains("inf\""), "a plot has no place for a number");
    for foreign in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(foreign), "the page asks for something: {foreign}");
    }
    let refusal = refused(&format!("bench {} --until fetch --report x.html", dir.display()));
    assert!(refusal.contains("choose a later stage"), "{refusal}");
}

#[test]
fn bench_draws_a_run_over_an_earlier_one() {
    let (temp, dir) = pictures();
    let at = |name: &str| temp.path().join(name).display().to_string();
    let bench = format!("bench {} --epochs 2", dir.display());
    succeed(&format!("{bench} --batch-size 6 --json {} --report {}", at("before.json"), at("before.html")));
    let before: Value =
        serde_json::from_slice(&std::fs::read(temp.path().join("before.json")).unwrap()).unwrap();
    for name in ["before.json", "before.html"] {
        let (file, page) = (at(name), at("now.html"));
        let people = succeed(&format!("{bench} --batch-size 8 --against {file} --report {page}"));
        assert!(people.contains(&format!("against         {name}, ")), "{people}");
        assert!(people.contains("different rows in a batch: 6 in the earlier report, 8 now"), "{people}");
        assert!(!people.contains("different data"), "{people}");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("<li>different rows in a batch: 6 in the earlier report, 8 now</li>"));
        assert!(page.contains(&format!("<th scope=\"col\">{name}</th><th scope=\"col\">this run</th>")));
        let rows = before["rows"].as_u64().unwrap();
        assert!(page.contains(&format!("<td>{rows}</td><td><data value=\"{rows}\"")), "both columns");
        assert!(page.contains("class=\"line before\"") && page.contains("first earlier"), "both runs drawn");
    }
    let people =
        succeed(&format!("{bench} --batch-size 6 --columns label --seed 4 --against {}", at("before.json")));
    for named in ["different columns: image, label in the earlier report, label now", "different seed: "] {
        assert!(people.contains(named), "{people}");
    }
    assert!(!people.contains("different files"), "{people}");
    let decoded = |how: &str, more: &str| succeed(&format!("{bench} --image image={how} {more}"));
    decoded("rrc16", &format!("--json {}", at("decoded.json")));
    let against = format!("--against {}", at("decoded.json"));
    assert!(!decoded("rrc16", &against).contains("different"));
    let people = decoded("rrc24,bicubic", &against);
    assert!(
        people.contains("different size of decoded \"image\": {\"height\":16,\"width\":16} in"),
        "{people}"
    );
    assert!(
        people.contains("different resampling of decoded \"image\": none in the earlier report"),
        "{people}"
    );
    let people = succeed(&format!("{bench} {against}"));
    assert!(
        people.contains("different size of decoded \"image\"") && people.contains("none now"),
        "{people}"
    );
    std::fs::write(temp.path().join("text.json"), "no JSON").unwrap();
    succeed(&format!("plan {} --json {}", dir.display(), at("plan.json")));
    for (name, said) in [
        ("text.json", "--against is not a report of `forebay bench`"),
        ("plan.json", "--against is not a report of `forebay bench`: missing field"),
    ] {
        let refusal = refused(&format!("{bench} --against {}", at(name)));
        assert!(refusal.contains(&at(name)) && refusal.contains(said), "{refusal}");
        assert!(refusal.contains("--json or --report of this version"), "{refusal}");
    }
}

#[test]
fn plan_gives_an_estimate_of_the_memory_beside_its_limit() {
    let (_temp, dir) = pictures();
    let report = json(&format!("plan {} --world 2", dir.display()));
    for rank in report["ranks"].as_array().unwrap() {
        let of = |key: &str| rank[key].as_u64().unwrap();
        assert!(of("expected_memory") >= of("peak_row_group_bytes"), "{rank}");
        assert!(of("expected_memory") <= of("most_memory") && of("most_memory") <= of("memory"), "{rank}");
    }
    let people = succeed(&format!("plan {}", dir.display()));
    assert!(people.contains("peak memory") && people.contains("at most"), "{people}");
}

#[test]
fn bench_ignores_no_option() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    for (arguments, said) in [
        (format!("{dir} --until fetch --check-order"), "--check-order with --until fetch"),
        (format!("{dir} --until fetch --world 3"), "--world with --until fetch"),
        (format!("{dir} --scale 2"), "--scale without --workload"),
        (format!("{dir} --dir /tmp"), "--dir without --workload"),
        (format!("{dir} --trace -"), "--trace needs the name of a file, not -"),
        (format!("{dir} --until fetch --against x.json"), "--against with --until fetch"),
        (format!("{dir} --image image=rrc8 --image image=rrc16"), "--image image=... is given twice"),
        (String::new(), "no data set was given (give the URL of one, or a --workload"),
    ] {
        let refusal = refused(&format!("bench {arguments}"));
        assert!(refusal.contains(said), "{refusal}");
    }
    assert!(succeed(&format!("bench {dir} --until rows")).contains("stored, from --until"));
}

#[test]
fn a_file_takes_the_json_and_people_still_read_the_report() {
    let (temp, dir) = pictures();
    let file = temp.path().join("report.json");
    let people = succeed(&format!("plan {} --json {}", dir.display(), file.display()));
    assert!(people.contains("rank"));
    let value: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(value["world"], 1);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_work_begins() {
    let (temp, dir) = pictures();
    let (dir, new) = (dir.display(), temp.path().join("new"));
    let new = new.display();
    for (line, option) in [
        (format!("inspect {dir} --json"), "--json"),
        (format!("plan {dir} --json"), "--json"),
        (format!("bench {dir} --json"), "--json"),
        (format!("bench {dir} --report"), "--report"),
        (format!("bench {dir} --trace"), "--trace"),
        (format!("bench --workload resnet50 --dir {new} --report"), "--report"),
        (format!("bench --workload resnet50 --dir {new} --trace"), "--trace"),
        (format!("doctor {dir} --json"), "--json"),
        (format!("cache {new} --warm {dir} --max-bytes 1GB --json"), "--json"),
        (format!("synth {new} --rows 1000000 --json"), "--json"),
        // The report's file is checked first: the error is about the file although the location does not
        // exist either.
        ("bench /no/such/data --report".into(), "--report"),
    ] {
        for (file, why) in [
            ("/nowhere/x", "No such file"),
            ("/proc/version/x", "Not a directory"),
            ("/tmp", "Is a directory"),
        ] {
            let line = format!("{line} {file}");
            let output = forebay(&line.split_whitespace().collect::<Vec<_>>());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{line}\n{said}");
            assert!(
                said.starts_with(&format!("forebay: error: {file}: {option} cannot be written: {why}")),
                "{line}\n{said}"
            );
            assert!(
                said.ends_with("(name a file in a folder that exists and can be written to)\n"),
                "{said}"
            );
            assert!(output.stdout.is_empty() && !temp.path().join("new").exists(), "{line}");
        }
    }
    let scratch = forebay(&["doctor", &dir.to_string(), "--scratch", "/nowhere"]);
    assert_eq!(scratch.status.code(), Some(1));
    assert!(text(&scratch.stderr).contains("/nowhere/forebay-doctor-"), "{}", text(&scratch.stderr));
    let synth = forebay(&["synth", "/proc/no/such", "--rows", "5"]);
    assert_eq!(synth.status.code(), Some(1));
    assert!(
        text(&synth.stderr).contains("/proc/no/such: the folder cannot be made: "),
        "{}",
        text(&synth.stderr)
    );
}

#[test]
fn a_disk_that_is_full_is_no_damage_and_nothing_unfinished_stays() {
    let temp = TempDir::new().unwrap();
    let at = |name: &str| temp.path().join(name).display().to_string();
    // A limit of the shell makes writing beyond 8 KiB of a file fail, as on a full disk.
    let limited = |words: &str| {
        let script = format!("trap '' XFSZ; ulimit -f 8; exec {} {words}", env!("CARGO_BIN_EXE_forebay"));
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let said = text(&output.stderr).to_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("File too large (os error 27) (name a folder on a disk that has room)"),
            "{said}"
        );
        said
    };
    let drawn = limited(&format!("synth {} --rows {ROWS} --image 64x48", at("drawn")));
    assert!(drawn.contains(".parquet: File too large"), "{drawn}");
    assert!(contents(&temp.path().join("drawn")).is_empty(), "something is left");
    let photos = at("photos");
    assert!(forebay(&["synth", &photos, "--rows", "50", "--image", "64x48"]).status.success());
    let packed = limited(&format!("pack --coefficients {photos} {}", at("packed")));
    assert!(packed.contains(&at("packed")) && !packed.contains(&photos), "{packed}");
    assert!(!temp.path().join("packed").exists(), "something is left");
}

#[test]
fn a_number_that_cannot_be_is_refused_with_its_option_and_what_may_be() {
    for (line, option, wanted) in [
        ("plan x --seed -1", "--seed <SEED>", "must be a whole number from 0 to 18,446,744,073,709,551,615"),
        ("bench x --batch-size -1", "--batch-size <BATCH_SIZE>", "must be a whole number from 1 to 18,4"),
        ("bench x --batch-size 1e3", "--batch-size <BATCH_SIZE>", "must be a whole number from 1 to 18,4"),
        ("bench x --memory -5", "--memory <SIZE>", "\"-5\" is not a size (write it as 500MB, 4GiB"),
        ("bench x --threads abc", "--threads <THREADS>", "must be a whole number from 1 "),
        ("bench x --threads 0", "--threads <THREADS>", "must be a whole number from 1 "),
        ("bench x --thread-sweep 1,x", "--thread-sweep <N,N>", "must be a whole number from 1 "),
        ("bench x --pressure -1", "--pressure <THREADS>", "must be a whole number from 0 "),
        ("bench x --epochs 1.5", "--epochs <EPOCHS>", "must be a whole number from 1 "),
        ("bench x --max-batches 0", "--max-batches <MAX_BATCHES>", "must be a whole number from 1 "),
        ("bench x --step-ms 1 --jitter much", "--jitter <SHARE>", "must be 0 or more and below 1"),
        ("bench --workload resnet50 --scale none", "--scale <SCALE>", "must be a number above 0"),
        ("bench x --image image=resize:-1", "--image <COLUMN=HOW>", "resize224x224 (height x width)"),
        ("bench x --world 4294967296", "--world <WORLD>", "must be a whole number from 1 to 4,294,967,295"),
        ("pack --coefficients x y --threads 0", "--threads <THREADS>", "must be a whole number from 1 "),
        ("plan x --lanes 0", "--lanes <LANES>", "must be a whole number from 1 "),
        ("plan x --window-rows -3", "--window-rows <WINDOW_ROWS>", "must be a whole number from 1 "),
        ("plan x --epoch first", "--epoch <EPOCH>", "must be a whole number from 0 "),
        ("doctor x --ranks two", "--ranks <RANKS>", "must be a whole number from 1 "),
        ("doctor x --seconds 0", "--seconds <S>", "must be a whole number from 1 "),
        ("synth x --rows many", "--rows <ROWS>", "must be a whole number from 1 "),
        ("synth x --rows 1 --classes 0", "--classes <CLASSES>", "must be a whole number from 1 "),
        ("synth x --rows 1 --tokens -1", "--tokens <LENGTH>", "must be a whole number from 1 "),
    ] {
        let said = refused(line);
        let given = line.split(' ').next_back().unwrap().rsplit(',').next().unwrap();
        assert!(
            said.starts_with(&format!("forebay: error: invalid value '{given}' for '{option}': ")),
            "{line}\n{said}"
        );
        assert!(said.contains(wanted), "{line}\n{said}");
        assert!(!said.contains("digit") && !said.contains("literal"), "{line}\n{said}");
    }
    assert!(refused("synth x --rows 1e3").contains(", such as 1000"), "a number that is written otherwise");
    for line in ["bench x --thread-sweep 1,100000", "synth x --rows 1 --threads 100000"] {
        let said = refused(line);
        assert!(said.contains("100000 is more than 1024"), "{said}");
    }
}

#[test]
fn an_interrupted_run_ends_at_once_with_status_130() {
    let (_temp, dir) = pictures();
    let begun = std::time::Instant::now();
    let output = Command::new("timeout")
        .args(["--preserve-status", "--signal=INT", "1", env!("CARGO_BIN_EXE_forebay"), "bench"])
        .args([dir.to_str().unwrap(), "--step-ms", "50", "--seconds", "600"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(begun.elapsed() < std::time::Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn what_a_newcomer_gives_by_mistake_is_answered_with_the_next_move() {
    let (temp, dir) = pictures();
    let at = |name: &str| temp.path().join(name);
    for folder in ["empty", "delta/_delta_log", "csv"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    std::fs::write(at("delta/_delta_log/00000000000000000000.json"), "{}").unwrap();
    std::fs::write(at("csv/a.csv"), "a,b\n1,2\n").unwrap();
    std::fs::write(at("page.parquet"), "<html>not found</html>").unwrap();
    let dir = dir.display();
    for (location, words) in [
        (
            at("empty"),
            "empty: the folder holds no Parquet file (it is empty, but for files whose names begin with _ or .)",
        ),
        (at("csv"), "csv: the folder holds no Parquet file (it has a.csv; CSV is not read: "),
        (at("csv/a.csv"), "a.csv: not a Parquet file"),
        (at("page.parquet"), "page.parquet: not a Parquet file"),
        (at("delta"), "delta: the log lacks the protocol of the table"),
        (at("missing"), "missing: No such file or directory"),
        ("file:///nothing?x=y".into(), "holds a query"),
        ("s3://bucket/nothing?x=y".into(), "the s3:// URL holds a query"),
        ("ftp://host/x".into(), "ftp:// is not read"),
    ] {
        for verb in ["inspect", "plan", "bench", "doctor", "cache --max-bytes 1GB --warm"] {
            let more =
                if verb.starts_with("cache") { at("rows").display().to_string() } else { String::new() };
            let said = refused(&format!("{verb} {} {more}", location.display()));
            assert!(said.contains(words), "{verb}: {said}");
        }
    }
    for (line, words) in [
        (format!("bench {dir} --cache {dir} --cache-bytes 1GB"), "a folder of its own: "),
        (format!("bench {dir} --cache x"), "--cache-bytes <SIZE>"),
        (
            format!("bench {dir} --storage-option region=x"),
            "a storage option is not known (local files need no options of stores)",
        ),
        (
            format!("inspect {dir} -o retry_timeout=soon"),
            "storage option \"retry_timeout\" is not a duration",
        ),
        (
            "inspect s3://b/x -o timeout=nonsense".into(),
            "storage option \"timeout\" is not a duration (write it as in",
        ),
        (format!("bench {dir} --order random"), "[possible values: window, exact, stored]"),
        (
            format!("bench {dir} --cache-tier jpeg --cache x --cache-bytes 1"),
            "auto, rows, coefficients, resized, pixels",
        ),
    ] {
        let said = refused(&line);
        assert!(said.contains(words), "{line}: {said}");
    }
    let denied = forebay(&["bench", &dir.to_string(), "--cache", "/proc/no/rows", "--cache-bytes", "1GB"]);
    let said = text(&denied.stderr);
    assert_eq!(denied.status.code(), Some(1), "{said}");
    assert!(said.contains("/proc/no/rows: the cache folder cannot be created: "), "{said}");
    assert!(said.ends_with("name a folder that this user can create and write to with --cache)\n"), "{said}");
}

#[test]
fn what_can_never_work_is_refused_in_one_sentence() {
    let (temp, dir) = pictures();
    let (good, empty, text) = (dir.display(), temp.path().join("empty"), temp.path().join("text.parquet"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(&text, "this is not Parquet, however long it is and whatever it is called").unwrap();
    let (empty, text) = (empty.display(), text.display());
    for verb in ["inspect", "plan", "bench"] {
        assert!(refused(&format!("{verb} /nowhere/at/all")).contains("/nowhere/at/all"));
        assert!(refused(&format!("{verb} {empty}")).contains("empty"));
        assert!(refused(&format!("{verb} {text}")).contains("text.parquet"));
    }
    for verb in ["plan", "bench"] {
        assert!(refused(&format!("{verb} {good} --columns imgae")).contains("\"image\""), "no suggestion");
        assert!(
            refused(&format!("{verb} {good} --image imgae=rrc32")).contains("\"image\""),
            "no suggestion"
        );
        assert!(refused(&format!("{verb} {good} --image label=rrc32")).contains("label"));
        assert!(refused(&format!("{verb} {good} --batch-size 0")).contains("batch"));
        assert!(refused(&format!("{verb} {good} --world 0")).contains("world"));
        assert!(refused(&format!("{verb} {good} --window-rows 0")).contains("window"));
        assert!(refused(&format!("{verb} {good} --memory 4XB")).contains("4XB"));
        assert!(refused(&format!("{verb} {good} --image image=crop32")).contains("rrc224"));
        assert!(refused(&format!("{verb} {good} --world 4294967296")).contains("world"));
    }
    for line in [
        format!("bench {good} --threads 0"),
        format!("bench {good} --epochs 0"),
        format!("bench {good} --step-ms -1"),
        format!("bench {good} --step-ms 5 --jitter 1"),
        format!("bench {good} --jitter 0.1"),
        format!("bench {good} --pressure 100000"),
        format!("bench {good} --seconds 0"),
        format!("bench {good} --thread-sweep 1,0"),
        format!("bench {good} --until lunch"),
        format!("bench {good} --world 100000"),
        format!("bench {good} --batchsize 3"),
        format!("synth {text} --rows 3"),
        format!("synth {empty} --rows 0"),
        format!("synth {empty} --rows 3 --image 500"),
        format!("synth {empty} --rows 3 --quality 200"),
        format!("synth {empty} --rows 3 --classes 0"),
        format!("synth {empty} --rows 3 --table --tokens 4"),
        "synth".to_owned(),
        "inspekt".to_owned(),
    ] {
        refused(&line);
    }
}

#[test]
fn help_teaches_by_example() {
    for verb in ["synth", "inspect", "plan", "bench"] {
        let help = succeed(&format!("{verb} --help"));
        assert!(help.contains("Examples:") && help.contains(&format!("forebay {verb} ")), "{help}");
    }
    assert!(succeed("--help").contains("Exit status"));
    assert!(succeed("--version").starts_with("forebay "));
}

#[test]
fn a_doctor_measures_predicts_and_advises() {
    let (temp, dir) = pictures();
    let scratch = temp.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let (dir, scratch) = (dir.display(), scratch.display());
    let asked = format!(
        "doctor {dir} --image image=rrc32 --batch-size 8 --step-ms 1 --seconds 1 --threads 2 --if-threads 4 \
         --if-latency-ms 50 --scratch {scratch}"
    );
    let report = json(&asked);
    assert_eq!(report["demand_rows_per_second"], 8_000.0);
    let predicted = report["predictions"].as_array().unwrap();
    let at = |change: Value| predicted.iter().find(|found| found["if"] == change).unwrap();
    for change in ["none", "free_store", "row_cache", "pixel_cache"] {
        let found = at(change.into());
        assert!(found["rate"]["rows_per_second"].as_f64() > Some(0.0), "{found}");
        let (busy, margin) = (found["utilisation"].as_f64().unwrap(), found["margin"].as_f64().unwrap());
        assert!((busy - margin.min(1.0)).abs() < 1e-9);
    }
    at(serde_json::json!({ "threads": 1 }));
    at(serde_json::json!({ "threads": 4 }));
    at(serde_json::json!({ "first_byte": 0.05 }));
    assert!(!report["advice"].as_array().unwrap().is_empty());
    assert_eq!(
        std::fs::read_dir(temp.path().join("scratch")).unwrap().count(),
        0,
        "what was written is removed"
    );
    assert!(
        refused(&format!("doctor {dir} --step-ms 10 --ranks 0"))
            .contains("--ranks <RANKS>': must be a whole number from 1 ")
    );

    let free = json(&format!("doctor {dir} --image image=rrc32 --batch-size 8 --seconds 1 --threads 2"));
    assert!(free["margin"].is_null() && free["demand_rows_per_second"].is_null(), "{free}");
    assert!(free["predictions"][0]["rate"]["rows_per_second"].as_f64() > Some(0.0), "{free}");
    assert!(free["advice"][0].as_str().unwrap().contains("--step-ms"), "{free}");
    assert!(!cfg!(target_os = "linux") || free["others_cores"].as_f64() >= Some(0.0), "{free}");
}

#[test]
fn a_doctor_refuses_what_it_cannot_measure() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("x.parquet");
    let schema = "message m { required int64 x; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let writer = SerializedFileWriter::new(std::fs::File::create(&file).unwrap(), schema, Default::default());
    writer.unwrap().close().unwrap();
    let file = file.display();
    assert!(refused(&format!("doctor {file} --seconds 1")).contains("no row"));
    assert!(
        refused(&format!("doctor {file} --if-threads 0"))
            .contains("--if-threads <N>': must be a whole number from 1 ")
    );
    assert!(refused(&format!("cache {file}")).contains("this is not a folder"));
}

#[test]
fn what_may_be_a_secret_is_not_repeated() {
    let (_temp, dir) = pictures();
    let dir = dir.display();
    let url = "https://ann:hunter2@host/x";
    for line in [
        url.to_owned(),
        format!("cache {url}"),
        format!("synth {url} --rows 10"),
        format!("bench {dir} --json {url}"),
        format!("bench {dir} --report={url}"),
        format!("bench {dir} --trace {url}"),
        format!("bench --workload resnet50 --dir {url}"),
        format!("plan {dir} -o hunter2"),
        format!("plan {dir} -o hunter2="),
        format!("plan {dir} -o aws_secret_access_key:hunter2"),
    ] {
        let said = refused(&line);
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_cache_is_warmed_used_verified_and_cleared() {
    let (temp, dir) = pictures();
    let cache = temp.path().join("cache");
    let (dir, cache) = (dir.display(), cache.display());
    assert!(refused(&format!("cache {cache}")).contains("folder not found"));
    let warmed = json(&format!("cache {cache} --warm {dir} --max-bytes 1GB"));
    assert_eq!(warmed["stats"]["entries"], 6, "{warmed}");

    let run =
        json(&format!("bench {dir} --image image=rrc32 --batch-size 8 --cache {cache} --cache-bytes 1GB"));
    assert_eq!(run["cache"]["misses"], 0, "{run}");
    assert!(run["cache"]["hits"].as_u64() >= Some(6), "{run}");
    assert_eq!(run["stages"]["fetch"]["bytes"], 0, "{run}");

    let verified = json(&format!("cache {cache} --verify"));
    assert_eq!((&verified["verified"]["sound"], &verified["verified"]["rows"]), (&6.into(), &ROWS.into()));
    assert!(succeed(&format!("cache {cache}")).starts_with("6 row groups of "));
    let less = warmed["stats"]["bytes"].as_u64().unwrap() - 1;
    let shrunk = succeed(&format!("cache {cache} --max-bytes {less}"));
    assert!(
        shrunk.starts_with("removed: 1 row group, the least recently used ones\n5 row groups of "),
        "{shrunk}"
    );
    assert!(succeed(&format!("cache {cache} --clear")).starts_with("cleared: 5 row groups of "));
    assert_eq!(json(&format!("cache {cache}"))["stats"]["entries"], 0);
}

#[test]
fn a_cache_is_warmed_in_the_form_that_a_loader_uses() {
    let temp = TempDir::new().unwrap();
    let dir = temp.path().join("pictures");
    let dir = dir.display();
    succeed(&format!("synth {dir} --rows {ROWS} --image 160x120 --rows-per-group 10"));
    let image = "--image image=resize96x128";
    let mut sizes = BTreeMap::new();
    for tier in ["rows", "coefficients", "pixels"] {
        let cache = temp.path().join(tier);
        let warmed =
            json(&format!("cache {} --warm {dir} {image} --tier {tier} --max-bytes 1GB", cache.display()));
        assert_eq!(warmed["stats"]["entries"], 6, "{tier}: {warmed}");
        sizes.insert(tier, warmed["stats"]["bytes"].as_u64().unwrap());
        let cached = format!("--cache {} --cache-bytes 1GB --cache-tier {tier}", cache.display());
        let run = json(&format!("bench {dir} {image} --batch-size 8 {cached}"));
        assert_eq!(
            (&run["cache"]["misses"], &run["stages"]["fetch"]["bytes"]),
            (&0.into(), &0.into()),
            "{tier}"
        );
    }
    assert!(sizes["rows"] < sizes["coefficients"] && sizes["coefficients"] < sizes["pixels"], "{sizes:?}");
    let warm = format!("cache {} --warm {dir} --max-bytes 1GB", temp.path().join("none").display());
    assert!(
        refused(&format!("{warm} {image} --tier auto")).contains("decided by measurements during training")
    );
    assert!(refused(&format!("{warm} --tier pixels")).contains("--image"));
    let unknown = refused(&format!("{warm} {image} --tier pixel"));
    assert!(unknown.contains("not a cache tier") && unknown.contains("rows, coefficients"), "{unknown}");
    assert!(!unknown.contains("auto"), "{unknown}");
}

/// `forebay which` lists the rows of any step from a saved position alone. They are the rows that the loader
/// delivered.
#[test]
fn which_rows_a_step_holds_is_known_from_a_position() {
    use forebay::arrow::array::AsArray;
    use forebay::arrow::datatypes::{DataType, Int64Type};
    use forebay::{Dataset, Shard, Shuffle};

    let (temp, dir) = pictures();
    let dataset = Dataset::open(&dir).unwrap();
    let ranks: Vec<_> = (0..2)
        .map(|rank| {
            let builder =
                dataset.loader().columns(["label"]).row_id(true).cast("label", DataType::Int64).batch_size(7);
            builder.shuffle(Shuffle::seeded(4)).shard(Shard::new(rank, 2).unwrap()).build().unwrap()
        })
        .collect();
    let mut epochs: Vec<_> = ranks.iter().map(|loader| loader.epoch(0)).collect();
    let delivered: Vec<Vec<(i64, i64)>> = epochs
        .iter_mut()
        .map(|epoch| {
            let batch = epoch.next().unwrap().unwrap();
            let values = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
            values("label").into_iter().zip(values("row_id")).collect()
        })
        .collect();
    let state = temp.path().join("state.json");
    std::fs::write(&state, serde_json::to_string(&ranks[0].position()).unwrap()).unwrap();
    let which = format!("which {} --state {}", dir.display(), state.display());
    let list = |options: &str| -> Vec<Value> {
        serde_json::from_str(&succeed(&format!("{which} {options} --json -"))).unwrap()
    };
    for (rank, rows) in delivered.iter().enumerate() {
        let found = list(&format!("--step 0 --rank {rank} --columns label"));
        assert_eq!(found.len(), 7);
        for (row, (label, row_id)) in found.iter().zip(rows) {
            assert_eq!(row["columns"], serde_json::json!({"label": label}));
            let place = dataset.row(forebay::RowId::new(*row_id)).unwrap().unwrap();
            assert_eq!(row["file"], Value::from(&*place.file));
            assert_eq!((&row["row_group"], &row["row"]), (&place.row_group.into(), &place.row.into()));
        }
    }
    assert_eq!(list("--step 0").len(), 14, "all ranks, one after another");
    assert_eq!(list("--step 0").first().unwrap().as_object().unwrap().len(), 3);
    // One step was delivered, so the next step is step 1. Step numbers go on through the following epochs.
    assert_eq!(list(""), list("--step 1"));
    let steps = ranks[0].len();
    assert_eq!(list(&format!("--step {}", steps + 2)), list("--step 2 --epoch 1"));
    assert!(
        succeed(&format!("{which} --rank 1")).starts_with("epoch 0, the next step, rank 1 of 2: 7 rows\n")
    );

    assert!(refused(&format!("{which} --step 99 --epoch 0")).contains("there is no step 99"));
    assert!(refused(&format!("{which} --rank 2")).contains("rank"));
    assert!(refused(&format!("{which} --columns nothing")).contains("nothing"));
    assert!(refused(&format!("{which} --columns image")).contains("cannot be shown"));
    let other = temp.path().join("other");
    synth(&other, "--seed 5");
    let of_other = format!("which {} --state {}", other.display(), state.display());
    assert!(refused(&of_other).contains("data set"));
    std::fs::write(&state, "{}").unwrap();
    assert!(refused(&which).contains("json.dump"));
}

/// A saved position contains the filter of the run but not its denied rows, so `which` needs the same
/// `--deny` again.
#[test]
fn a_run_that_left_rows_out_is_rewound_with_them() {
    use forebay::arrow::array::AsArray;
    use forebay::arrow::datatypes::{DataType, Int64Type};
    use forebay::filter::col;
    use forebay::{Dataset, Deny};

    let (temp, dir) = pictures();
    let dataset = Dataset::open(&dir).unwrap();
    let builder = dataset.loader().columns(["label"]).cast("label", DataType::Int64).batch_size(10);
    let loader = builder.filter(col("label").gt_eq(3)).deny(Deny::values("label", [7])).build().unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let labels = batch["label"].as_primitive::<Int64Type>().values();
    assert!(labels.iter().all(|label| *label >= 3 && *label != 7));
    let (state, denied) = (temp.path().join("state.json"), temp.path().join("denied.txt"));
    std::fs::write(&state, serde_json::to_string(&loader.position()).unwrap()).unwrap();
    std::fs::write(&denied, "7\n").unwrap();
    let which = format!("which {} --state {} --step 0 --columns label", dir.display(), state.display());
    let out = succeed(&format!("{which} --deny label={} --json -", denied.display()));
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    let found: Vec<i64> = rows.iter().map(|row| row["columns"]["label"].as_i64().unwrap()).collect();
    assert_eq!(found, **labels);
    assert!(refused(&which).contains("denied rows"));
}

/// `forebay verify` kills ranks and resumes on other numbers of ranks: each row comes once. With `--plant` it
/// changes a batch on purpose, and must report that fault.
#[test]
fn each_row_is_proved_to_come_once_and_what_is_planted_is_found() {
    let (temp, dir) = pictures();
    let verify = format!("verify {} --batch-size 3", dir.display());
    for options in
        ["", "--world 3", "--world 2 --drop-last --order exact", "--world 4 --columns label --order stored"]
    {
        let report = json(&format!("{verify} {options}"));
        assert_eq!((&report["is_right"], &report["order"]["differing_batches"]), (&true.into(), &0.into()));
        assert_eq!(report["rows"]["never"], report["rows"]["planned_never"], "{options}");
    }

    let cache = temp.path().join("cache");
    let killed =
        format!("{verify} --world 3 --epochs 3 --kill=6 --cache {} --cache-bytes 1GB", cache.display());
    let report = json(&killed);
    assert_eq!(report["is_right"], true, "{report}");
    assert_eq!(report["worlds"].as_array().unwrap().len(), 7);
    assert_eq!(report["worlds"][0], 3);
    let epochs = 3 * ROWS;
    assert_eq!((&report["rows"]["once"], &report["contents"]["compared"]), (&epochs.into(), &epochs.into()));
    assert_eq!(report["order"]["steps"], 3 * ROWS.div_ceil(9));

    for (fault, said) in [
        ("duplicate", "1 instead of 0 twice or more, 0 never: NOT as planned for 1 row"),
        ("loss", "1 instead of 0 never"),
        ("swap", "order           NOT as planned in 1 batch"),
    ] {
        let output =
            forebay(&["verify", dir.to_str().unwrap(), "--batch-size", "3", "--kill=2", "--plant", fault]);
        assert_eq!(output.status.code(), Some(1), "{fault}");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(out.contains(said) && out.contains("NOT as planned in 1 batch"), "{out}");
        assert!(err.contains("the delivered rows differ from the plan"), "{err}");
    }
    assert!(refused(&format!("{verify} --columns nothing")).contains("nothing"));
    assert!(refused("verify-rank").contains("forebay verify"));
    for other in ["--mix 1,1", "--balance label", "--window 3", "--kill=3", "--piece-rows 5", "--drop-last"] {
        let said = refused(&format!("{verify} --trainer torch {other}"));
        assert!(said.contains("cannot be used with"), "{said}");
    }
    let without = refused(&format!("{verify} --trainer lightning"));
    assert!(
        without.contains("trainers need Python") && without.contains("install forebay with pip"),
        "{without}"
    );
}

#[test]
fn an_index_is_written_used_and_written_again() {
    let (_temp, dir) = pictures();
    let shown = dir.display();
    let said = succeed(&format!("index {shown}"));
    assert!(said.starts_with(&format!("{shown}/_forebay_index: an index of 2 footers (")), "{said}");
    assert!(said.ends_with("of which 2 were read now\n"), "{said}");
    let out = succeed(&format!("index {shown} --json -"));
    let written: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&written[0]["files"], &written[0]["files_read"]),
        (&Value::from(2), &Value::from(0)),
        "{out}"
    );
    let plain = json(&format!("plan {shown} -o index=off"));
    assert_eq!(json(&format!("plan {shown}"))["fingerprint"], plain["fingerprint"]);

    std::fs::write(dir.join("_forebay_index"), "something else").unwrap();
    let output = forebay(&["plan", &shown.to_string()]);
    assert!(output.status.success());
    let warned = text(&output.stderr);
    assert!(warned.contains("footers are read without the index: "), "{warned}");
    assert!(warned.contains("_forebay_index: it is something else"), "{warned}");

    let file = std::fs::read_dir(&dir).unwrap().find_map(|item| {
        let path = item.unwrap().path();
        path.extension().is_some_and(|suffix| suffix == "parquet").then_some(path)
    });
    let refused = refused(&format!("index {}", file.unwrap().display()));
    assert!(refused.contains("open the folder itself"), "{refused}");
}

/// `forebay verify` also kills ranks that deliver samples (such as windows of rows) or mixes of data sets. It
/// compares the delivered rows with the plan and with the stored rows.
#[test]
fn samples_and_mixes_are_proved_as_rows_are() {
    let (temp, dir) = pictures();
    let other = temp.path().join("other");
    synth(&other, "--seed 5");
    let (dir, other) = (dir.display(), other.display());
    for (line, rows) in [
        (format!("{dir} --balance label --draws 90"), Some(180)),
        (format!("{dir} --weights label --without-replacement --draws 30"), Some(60)),
        (format!("{dir} --bucket label=20"), None),
        (format!("{dir} --window 3 --columns label"), Some(2 * 6 * 8 * 3)),
        (format!("{dir} {other} --mix 2,1 --columns label"), None),
        (format!("{dir} {other} {dir} --mix 0.5,0.25,0.25 --lanes 2 --columns label --order exact"), None),
    ] {
        let report = json(&format!("verify {line} --batch-size 4 --world 2 --kill=3 --seed 3"));
        assert_eq!(report["is_right"], true, "{line}: {report}");
        assert_eq!(report["worlds"].as_array().unwrap().len(), 4, "{line}");
        let came = report["contents"]["compared"].as_u64().unwrap();
        assert!(rows.is_none_or(|rows| (rows..rows + 24).contains(&came)), "{line}: {came}");
    }
    let line = format!("verify {dir} {other} --mix 2,1 --columns label --plant swap");
    let output = forebay(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("NOT as planned in 1 batch"), "{}", text(&output.stdout));

    // Here the plan itself delivers some rows several times, so a duplicated row shows only when the
    // deliveries of each row are counted.
    let line =
        format!("verify {dir} --balance label --draws 400 --columns label --epochs 1 --plant duplicate");
    let output = forebay(&line.split_whitespace().collect::<Vec<_>>());
    assert!(text(&output.stdout).contains("NOT as planned for 1 row\n"), "{}", text(&output.stdout));

    assert!(refused(&format!("verify {dir} --mix 1,2")).contains("give one weight for each location"));
    assert!(refused(&format!("verify {dir} --balance label --window 3")).contains("--window"));
    assert!(refused(&format!("verify {dir} --draws 3")).contains("--balance"));
    assert!(refused(&format!("plan {dir} --bucket id")).contains("COLUMN=VALUES"));
    let planned = json(&format!("plan {dir} --balance label --draws 90 --batch-size 5 --world 2"));
    assert!(planned.to_string().contains("\"steps\":9"), "{planned}");
}

/// For the saved position of a mix, `which` needs the locations of all its sources (data sets).
#[test]
fn a_mix_is_rewound_with_its_sources() {
    use forebay::samples::Sample;
    use forebay::{Dataset, Loader, Shuffle};

    let (temp, dir) = pictures();
    let other = temp.path().join("other");
    synth(&other, "--seed 5");
    let source = |dir: &Path| Dataset::open(dir).unwrap().loader().columns(["label"]);
    let drawn = source(&dir).samples(Sample::balanced("label")).shuffle(Shuffle::seeded(3));
    let mix = Loader::mix([(drawn, 2.0), (source(&other), 1.0)]).unwrap();
    let mix = mix.batch_size(9).random_shares(4).build().unwrap();
    let mut epoch = mix.epoch(0);
    let _first = epoch.next().unwrap().unwrap();
    let state = temp.path().join("state.json");
    std::fs::write(&state, serde_json::to_string(&mix.position()).unwrap()).unwrap();
    let which = format!("which {} {} --state {}", dir.display(), other.display(), state.display());
    let list = |options: &str| -> Vec<(u64, String, u64, u64)> {
        let rows: Vec<Value> =
            serde_json::from_str(&succeed(&format!("{which} {options} --json -"))).unwrap();
        let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
        let file = |row: &Value| row["file"].as_str().unwrap().to_owned();
        rows.iter()
            .map(|row| (number(row, "source"), file(row), number(row, "row_group"), number(row, "row")))
            .collect()
    };
    let planned = |epoch: u64, step: u64| -> Vec<(u64, String, u64, u64)> {
        let rows = mix.which(epoch, step, 0).unwrap().into_iter();
        rows.map(|row| (row.source as u64, row.file.to_string(), row.row_group as u64, row.row)).collect()
    };
    assert_eq!(list(""), planned(0, 1), "the next step");
    assert_eq!(list("--step 3 --epoch 2"), planned(2, 3));
    assert_eq!(list(&format!("--step {}", mix.len() + 2)), planned(1, 2));
    let text = succeed(&format!("{which} --columns label"));
    assert!(text.starts_with("epoch 0, the next step, rank 0 of 1: 9 rows\nsource 0  "), "{text}");
    let one = format!("which {} --state {}", dir.display(), state.display());
    assert!(refused(&one).contains("a mix of 2 sources, but 1"));
    assert!(refused(&format!("{which} --deny x.txt")).contains("--deny 0:x.txt"));
}

/// In a mix, `--deny` gives each source (data set) its own list of denied rows, in `verify` and in `which`.
#[test]
fn rows_of_the_sources_of_a_mix_are_denied_one_by_one() {
    use forebay::{Dataset, Deny, Loader};

    let (temp, dir) = pictures();
    let other = temp.path().join("other");
    synth(&other, "--seed 5");
    let first = Dataset::open(&dir).unwrap().loader().columns(["label"]).row_id(true).build().unwrap();
    let denied: Vec<_> = first.which(0, 0, 0).unwrap().iter().take(3).map(|row| row.id).collect();
    let lines: Vec<String> = denied.iter().map(ToString::to_string).collect();
    let list = temp.path().join("bad.txt");
    std::fs::write(&list, lines.join("\n")).unwrap();
    let values = temp.path().join("labels.txt");
    std::fs::write(&values, "2\n").unwrap();
    let (dir, other, list, values) = (dir.display(), other.display(), list.display(), values.display());

    let alone = json(&format!("verify {dir} --columns label --batch-size 4 --kill=1 --deny {list}"));
    assert_eq!((&alone["is_right"], &alone["denied"]["rows"]), (&true.into(), &3.into()), "{alone}");
    // If the last step has fewer rows than there are ranks, a row is repeated, so the sum includes rows that
    // came more than once.
    let times = |times: &str| alone["rows"][times].as_u64().unwrap();
    assert_eq!(times("once") + times("more"), 2 * (ROWS - 3), "{alone}");

    let mixed = format!("{dir} {other} --mix 2,1 --columns label --batch-size 6 --world 2");
    let lists = format!("--deny 0:{list} --deny 1:label={values}");
    let report = json(&format!("verify {mixed} {lists} --kill=2"));
    assert_eq!(report["is_right"], true, "{report}");
    assert!(report["denied"]["rows"].as_u64().unwrap() > 3 && report["denied"]["came"] == 0, "{report}");
    let said = succeed(&format!("verify {mixed} {lists} --epochs 1"));
    assert!(said.contains("none of which was delivered") && said.contains(": as planned"), "{said}");

    let source = |dir: String| Dataset::open(dir).unwrap();
    let deny = Deny::rows(denied.iter().copied());
    let of_first = source(dir.to_string()).loader().columns(["label"]).deny(deny);
    let of_other = source(other.to_string()).loader().columns(["label"]);
    let mix = Loader::mix([(of_first, 2.0), (of_other, 1.0)]).unwrap().batch_size(6).build().unwrap();
    let state = temp.path().join("state.json");
    std::fs::write(&state, serde_json::to_string(&mix.position()).unwrap()).unwrap();
    let which = format!("which {dir} {other} --state {} --step 3", state.display());
    let rows: Value = serde_json::from_str(&succeed(&format!("{which} --deny 0:{list} --json -"))).unwrap();
    let planned = mix.which(0, 3, 0).unwrap();
    let places: Vec<(usize, u64)> = planned.iter().map(|row| (row.source, row.row)).collect();
    let found = rows.as_array().unwrap().iter();
    let found: Vec<(usize, u64)> =
        found.map(|row| (row["source"].as_u64().unwrap() as usize, row["row"].as_u64().unwrap())).collect();
    assert_eq!(found, places);

    assert!(refused(&which).contains("denied rows"));
    assert!(refused(&format!("verify {mixed} --deny {list}")).contains("--deny 0:"));
    assert!(refused(&format!("verify {mixed} --deny 2:{list}")).contains("names source 2, but there are 2"));
    assert!(refused(&format!("verify {dir} {other} --mix a,1")).contains("such as 0.7,0.3"));
}
