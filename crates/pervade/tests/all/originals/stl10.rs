//! STL-10: bytes from a formula that the NumPy reference uses too.

use std::fs;
use std::io::Write;
use std::path::Path;

use pervade::data::{ImageShape, ReadOptions, Values, read, read_labels};

use super::{expected, label_words, problem, refusal, with_labels};

const PICTURE: usize = 3 * 96 * 96;
const NAMES: &str = "airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n";

#[derive(serde::Deserialize)]
struct Expected {
    crc32: u32,
    /// Picture, y, x, channel, value.
    pixels: Vec<[usize; 5]>,
}

fn bytes(pictures: std::ops::Range<usize>) -> Vec<u8> {
    let byte = |i: usize| ((i as u64 * 2_654_435_761 % (1 << 32)) >> 24) as u8;
    (pictures.start * PICTURE..pictures.end * PICTURE).map(byte).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Three training images, packed; two test images; one without a label.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, data: &[u8]| fs::write(folder.path().join(name), data).unwrap();
    write("train_X.bin.gz", &gzip(&bytes(0..3)));
    write("train_y.bin", &[10, 1, 4]);
    write("test_X.bin", &bytes(3..5));
    write("test_y.bin.gz", &gzip(&[1, 9]));
    write("unlabeled_X.bin", &bytes(1..2));
    write("class_names.txt", NAMES.as_bytes());
    folder
}

fn pixels(path: &Path) -> Vec<u8> {
    let data = read(path, &ReadOptions::default()).unwrap().data;
    assert_eq!(data.image(), Some(ImageShape { height: 96, width: 96, channels: 3 }));
    assert_eq!(data.n_columns(), PICTURE);
    let Values::U8(pixels) = data.values() else { panic!("{:?}", data.values()) };
    pixels.to_vec()
}

#[test]
fn images_are_transposed_from_channels_and_columns_to_rows_of_pixels() {
    let folder = folder();
    let found = pixels(folder.path());
    let expected: Expected = expected("stl10.json");
    for [picture, y, x, channel, value] in expected.pixels {
        let at = ((picture * 96 + y) * 96 + x) * 3 + channel;
        assert_eq!(usize::from(found[at]), value, "picture {picture}, y {y}, x {x}, channel {channel}");
    }
    let mut crc = flate2::Crc::new();
    crc.update(&found);
    assert_eq!((found.len(), crc.sum()), (5 * PICTURE, expected.crc32));
    // The unlabelled part, or any other, is read if its file is named.
    assert_eq!(pixels(&folder.path().join("unlabeled_X.bin")), found[PICTURE..2 * PICTURE]);
    assert_eq!(pixels(&folder.path().join("train_X.bin.gz")), found[..3 * PICTURE]);
}

#[test]
fn labels_are_the_names_of_the_classes_or_their_numbers() {
    let folder = folder();
    assert_eq!(
        label_words(&with_labels(folder.path(), "y")),
        ["truck", "airplane", "cat", "airplane", "ship"]
    );
    fs::remove_file(folder.path().join("class_names.txt")).unwrap();
    let by_number = with_labels(folder.path(), "y").labels.unwrap();
    assert_eq!((by_number.ids(), by_number.names().len()), (&[3, 0, 1, 0, 2][..], 4));
    assert_eq!(by_number.names(), ["1", "4", "9", "10"]);
    let labels = folder.path().join("train_y.bin");
    assert_eq!(read_labels(&labels).unwrap().names(), ["1", "4", "10"]);
    let one = with_labels(&folder.path().join("train_X.bin.gz"), labels.to_str().unwrap());
    assert_eq!(label_words(&one), ["10", "1", "4"]);
}

#[test]
fn missing_files_are_named() {
    let folder = folder();
    fs::remove_file(folder.path().join("test_y.bin.gz")).unwrap();
    assert_eq!(
        problem(folder.path()),
        "`FOLDER`: there is neither `test_y.bin` nor `test_y.bin.gz` in the folder"
    );
    assert_eq!(pixels(folder.path()).len(), 5 * PICTURE, "without labels that file is not needed");
    fs::remove_file(folder.path().join("train_X.bin.gz")).unwrap();
    let (text, hint) = refusal(folder.path(), folder.path(), None);
    assert_eq!(text, "`FOLDER`: there is neither `train_X.bin` nor `train_X.bin.gz` in the folder");
    assert!(hint.contains("unlabeled_X.bin, can be given by itself"), "{hint}");
}

#[test]
fn wrong_lengths_are_named() {
    let folder = folder();
    let test = folder.path().join("test_X.bin");
    fs::write(&test, &bytes(3..5)[..PICTURE + 5]).unwrap();
    assert_eq!(
        problem(folder.path()),
        "`test_X.bin`: 27653 bytes are not a whole number of pictures of 27648 bytes (3 channels x 96 x 96)"
    );
    fs::write(&test, bytes(3..4)).unwrap();
    assert_eq!(
        problem(folder.path()),
        "`test_y.bin.gz`: there are 2 labels for the 1 pictures of `test_X.bin`"
    );
    fs::write(&test, []).unwrap();
    assert_eq!(problem(folder.path()), "`test_X.bin`: the file holds no pictures");
    let packed = gzip(&bytes(0..3));
    fs::write(folder.path().join("train_X.bin.gz"), &packed[..packed.len() / 2]).unwrap();
    let text = problem(folder.path());
    assert!(text.starts_with("`train_X.bin.gz`: the file cannot be unpacked"), "{text}");
}

#[test]
fn labels_out_of_range_and_wrong_kinds_are_named() {
    let folder = folder();
    fs::write(folder.path().join("class_names.txt"), "cat\ndog\n").unwrap();
    assert_eq!(problem(folder.path()), "`class_names.txt`: there are names for 2 classes, expected 10");
    fs::write(folder.path().join("class_names.txt"), NAMES).unwrap();
    for (labels, wrong) in [([1, 2, 11], 11), ([1, 2, 0], 0)] {
        fs::write(folder.path().join("train_y.bin"), labels).unwrap();
        assert_eq!(
            problem(folder.path()),
            format!("`train_y.bin`: the label of picture 3 is {wrong}, must be 1 to 10")
        );
    }
    let (text, _) = refusal(&folder.path().join("test_y.bin.gz"), folder.path(), None);
    assert_eq!(text, "`test_y.bin.gz`: the file holds STL-10's labels, not its pictures");
    let pictures = folder.path().join("test_X.bin");
    let (text, _) = refusal(folder.path(), folder.path(), pictures.to_str());
    assert_eq!(text, "`test_X.bin`: the file holds STL-10's pictures, not its labels");
    let (text, _) = refusal(folder.path(), folder.path(), Some("column:last"));
    assert_eq!(text, "`FOLDER`: there are no labels `column:last` here; there is `y`");
    let (text, _) = refusal(&pictures, folder.path(), Some("y"));
    assert_eq!(text, "`test_X.bin`: there are no labels `y` here; the file holds only pictures");
}

/// Bare pixels may start like any other format; the name decides.
#[test]
fn pixels_that_look_like_another_format_are_pixels() {
    let folder = folder();
    for start in [&b"\x1f\x8b\x08\x00"[..], b"\x00\x00\x08\x01", b"PK\x03\x04", b"\x93NUMPY"] {
        let mut data = bytes(3..5);
        data[..start.len()].copy_from_slice(start);
        fs::write(folder.path().join("test_X.bin"), &data).unwrap();
        assert_eq!(pixels(folder.path()).len(), 5 * PICTURE);
        assert_eq!(pixels(&folder.path().join("test_X.bin"))[0], start[0]);
    }
}
