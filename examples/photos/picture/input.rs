//! Finding and reading pictures, and saying in one line what is wrong with those that cannot be read.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

use image::error::ImageError;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::Picture;
use super::complete::is_complete_jpeg;
use super::names::Names;

/// The most pixels that a picture may have, whatever its shape: on the device one of this size takes 1.5 GiB.
const PIXELS_MAX: u64 = 1 << 28;

/// The most bytes that decoding one picture may take: sixteen bits for each of four channels, and as much again.
const DECODING_BYTES_MAX: u64 = PIXELS_MAX * 8 * 2;

/// The photographs that come with the program.
const INCLUDED: [(&str, &[u8]); 3] = [
    (
        "astronaut.png",
        include_bytes!("../../../assets/pictures/astronaut.png"),
    ),
    (
        "hubble_deep_field.jpg",
        include_bytes!("../../../assets/pictures/hubble_deep_field.jpg"),
    ),
    (
        "rocket.jpg",
        include_bytes!("../../../assets/pictures/rocket.jpg"),
    ),
];

/// A picture that has been found and not yet been read.
#[derive(Debug)]
pub(crate) struct Source {
    /// What its results are called; no two sources have the same.
    pub(crate) name: String,
    place: Place,
}

/// Where the bytes of a picture are.
#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Included {
        name: &'static str,
        bytes: &'static [u8],
    },
}

/// An input that gives no picture; displayed in one line.
#[derive(Debug, thiserror::Error)]
#[error("{label}: {problem}")]
pub(crate) struct BadInput {
    label: String,
    problem: Problem,
}

/// What is wrong with an input.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("there is no such file")]
    Missing,
    #[error("cannot be read ({0})")]
    Unreadable(std::io::Error),
    #[error("is neither a file nor a folder")]
    Special,
    #[error("there is no PNG or JPEG file in this folder")]
    NoPictures,
    #[error("the file is empty")]
    Empty,
    #[error("is not a PNG or JPEG picture")]
    NotAPicture,
    #[error("the picture is cut off: the file ends too early")]
    Truncated,
    #[error("the picture is damaged ({0})")]
    Damaged(String),
    #[error("the picture is too large: {0} × {1} pixels, and at most {PIXELS_MAX} are possible")]
    TooLarge(u32, u32),
}

/// All pictures that `paths` stand for, in the order given and those of a folder in order of their names, and every path that
/// stands for none. Without paths, the photographs that come with the program. Their results go to `out`.
pub(crate) fn gather(paths: &[PathBuf], out: &Path) -> (Vec<Source>, Vec<BadInput>) {
    let mut places = Vec::new();
    let mut bad = Vec::new();
    for path in paths {
        match files(path) {
            Ok(files) => places.extend(files.into_iter().map(Place::File)),
            Err(problem) => bad.push(BadInput {
                label: label(path),
                problem,
            }),
        }
    }
    if paths.is_empty() {
        places.extend(INCLUDED.map(|(name, bytes)| Place::Included { name, bytes }));
    }
    let mut names = Names::new(out, places.iter().filter_map(Place::file));
    let sources = places
        .into_iter()
        .map(|place| Source {
            name: names.name(place.path()),
            place,
        })
        .collect();
    (sources, bad)
}

impl Source {
    /// Reads the picture, upright: turned as its file says, and what is transparent put on white.
    ///
    /// # Errors
    /// What is wrong with the input, in one line.
    pub(crate) fn load(&self) -> Result<Picture, BadInput> {
        let picture = match &self.place {
            Place::File(path) => read(path).and_then(|bytes| decode(&bytes)),
            Place::Included { bytes, .. } => decode(bytes),
        };
        picture.map_err(|problem| BadInput {
            label: label(self.place.path()),
            problem,
        })
    }
}

impl Place {
    /// The path, or what stands in for one.
    fn path(&self) -> &Path {
        match self {
            Place::File(path) => path,
            Place::Included { name, .. } => Path::new(name),
        }
    }

    /// The path of a file.
    fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path) => Some(path),
            Place::Included { .. } => None,
        }
    }
}

/// `path` for a message of one line.
fn label(path: &Path) -> String {
    path.to_string_lossy().replace(char::is_control, "\u{fffd}")
}

/// The file `path`, or the pictures directly in the folder `path`.
fn files(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let kind = path.metadata().map_err(unreadable)?;
    if kind.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !kind.is_dir() {
        return Err(Problem::Special);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if is_called_a_picture(&file) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        Err(Problem::NoPictures)
    } else {
        Ok(files)
    }
}

/// Whether the name of a file in a folder says that it is a picture. Hidden files are none.
fn is_called_a_picture(file: &Path) -> bool {
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    !name.starts_with('.')
        && [".png", ".jpg", ".jpeg"]
            .iter()
            .any(|ending| name.ends_with(ending))
}

/// What the error of a file operation means.
fn unreadable(error: std::io::Error) -> Problem {
    if error.kind() == ErrorKind::NotFound {
        Problem::Missing
    } else {
        Problem::Unreadable(error)
    }
}

/// The contents of the file `path`; of one that is no picture not more than its beginning is read.
fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.by_ref()
        .take(16)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    format(&bytes)?;
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The format of the picture that starts with `bytes`.
fn format(bytes: &[u8]) -> Result<ImageFormat, Problem> {
    match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => Ok(format),
        _ if bytes.is_empty() => Err(Problem::Empty),
        _ => Err(Problem::NotAPicture),
    }
}

/// The picture in a file of these contents.
fn decode(bytes: &[u8]) -> Result<Picture, Problem> {
    let format = format(bytes)?;
    if format == ImageFormat::Jpeg && !is_complete_jpeg(bytes) {
        return Err(Problem::Truncated);
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(DECODING_BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Problem::TooLarge(width, height));
    }
    let orientation = decoder.orientation().map_err(damaged)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    picture.apply_orientation(orientation);
    let (width, height) = (picture.width(), picture.height());
    Ok(Picture {
        width,
        height,
        rgb: on_white(picture),
    })
}

/// The bytes of a picture, with white behind what is transparent.
fn on_white(picture: DynamicImage) -> Vec<u8> {
    if !picture.color().has_alpha() {
        return picture.into_rgb8().into_raw();
    }
    let mix = |[red, green, blue, alpha]: [u8; 4]| {
        let alpha = u32::from(alpha);
        [red, green, blue].map(|level| ((u32::from(level) * alpha + 255 * (255 - alpha) + 127) / 255) as u8)
    };
    picture
        .into_rgba8()
        .pixels()
        .flat_map(|pixel| mix(pixel.0))
        .collect()
}

/// What the error of a decoder means.
fn damaged(error: ImageError) -> Problem {
    match error {
        ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => Problem::Truncated,
        error => Problem::Damaged(error.to_string().replace(char::is_control, " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{GrayImage, ImageEncoder, RgbImage, RgbaImage};

    /// A file's worth of `image` in `format`.
    fn encoded(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.into().write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    /// A picture in which no two neighbours are alike.
    fn colourful(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x * 37) as u8, (y * 59) as u8, (x * y) as u8])
        })
    }

    /// The message about a file of these contents.
    #[track_caller]
    fn message(bytes: &[u8]) -> String {
        decode(bytes)
            .map(|picture| (picture.width, picture.height))
            .unwrap_err()
            .to_string()
    }

    /// A fresh folder for one test, removed when it ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("millstream-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn with(self, name: &str, bytes: &[u8]) -> Folder {
            std::fs::write(self.0.join(name), bytes).unwrap();
            self
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // What is left behind is in the system's temporary folder, and no test depends on it.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn pixels_come_out_as_they_went_in() {
        let image = colourful(5, 3);
        let picture = decode(&encoded(image.clone(), ImageFormat::Png)).unwrap();
        assert_eq!(
            (picture.width, picture.height, picture.rgb),
            (5, 3, image.into_raw())
        );
        let grey = decode(&encoded(
            GrayImage::from_raw(2, 1, vec![7, 200]).unwrap(),
            ImageFormat::Png,
        ))
        .unwrap();
        assert_eq!(grey.rgb, [7, 7, 7, 200, 200, 200]);
    }

    #[test]
    fn thin_and_wide_pictures_work() {
        for (width, height) in [(1, 1), (1, 500), (500, 1), (20_000, 3), (3, 20_000)] {
            let picture = decode(&encoded(colourful(width, height), ImageFormat::Png)).unwrap();
            assert_eq!((picture.width, picture.height), (width, height));
            let picture = decode(&encoded(colourful(width, height), ImageFormat::Jpeg)).unwrap();
            assert_eq!(picture.rgb.len(), (width * height * 3) as usize);
        }
    }

    #[test]
    fn transparent_pixels_lie_on_white() {
        let image = RgbaImage::from_raw(3, 1, vec![0, 0, 0, 0, 0, 100, 200, 255, 0, 0, 0, 128]).unwrap();
        assert_eq!(
            decode(&encoded(image, ImageFormat::Png)).unwrap().rgb,
            [255, 255, 255, 0, 100, 200, 127, 127, 127]
        );
    }

    #[test]
    fn a_picture_is_turned_as_its_file_says() {
        // EXIF with one entry: orientation 6, to be turned by 90° to the right.
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let mut bytes = Vec::new();
        let mut encoder = image::codecs::png::PngEncoder::new(&mut bytes);
        encoder.set_exif_metadata(exif.to_vec()).unwrap();
        encoder
            .write_image(&[10, 20], 2, 1, image::ExtendedColorType::L8)
            .unwrap();
        let picture = decode(&bytes).unwrap();
        assert_eq!((picture.width, picture.height, picture.rgb[0]), (1, 2, 10));
    }

    #[test]
    fn bad_contents_are_told_apart() {
        assert_eq!(message(b""), "the file is empty");
        assert_eq!(message(b"hello, world\n"), "is not a PNG or JPEG picture");
        assert_eq!(message(b"GIF89a\x01\0\x01\0"), "is not a PNG or JPEG picture");
        let mut png = encoded(colourful(40, 40), ImageFormat::Png);
        let middle = png.len() / 2;
        png[middle] ^= 0xff;
        assert!(
            message(&png).starts_with("the picture is damaged ("),
            "{}",
            message(&png)
        );
    }

    #[test]
    fn a_picture_that_is_cut_off_is_never_a_picture() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let whole = encoded(colourful(30, 30), format);
            // The last twelve bytes of a PNG file, and the checksum before them, say nothing about pixels.
            let needed = if format == ImageFormat::Png {
                whole.len() - 16
            } else {
                whole.len()
            };
            for length in 8..needed {
                let problem = decode(&whole[..length]).map(|_| ()).unwrap_err();
                assert!(
                    matches!(problem, Problem::Truncated),
                    "{format:?} of {length}: {problem}"
                );
            }
        }
    }

    #[test]
    fn too_many_pixels_are_refused_before_they_are_decoded() {
        let mut png = encoded(colourful(1, 1), ImageFormat::Png);
        // Width, height, and the checksum of the header that says so.
        png[16..24].copy_from_slice(&[0, 0, 0x80, 0, 0, 0, 0x40, 0]);
        let checksum = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(
            message(&png),
            "the picture is too large: 32768 × 16384 pixels, and at most 268435456 are possible"
        );
    }

    /// The checksum that PNG uses.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        };
        !bytes
            .iter()
            .fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
    }

    #[test]
    fn folders_stand_for_their_pictures() {
        let png = encoded(colourful(2, 2), ImageFormat::Png);
        let folder = Folder::new("folders")
            .with("b.PNG", &png)
            .with("a.jpeg", b"x")
            .with("notes.txt", b"x")
            .with(".c.png", &png);
        let (sources, bad) = gather(std::slice::from_ref(&folder.0), Path::new("out"));
        assert!(bad.is_empty());
        assert_eq!(
            sources
                .iter()
                .map(|source| source.name.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        let refused = sources[0].load().unwrap_err().to_string();
        assert!(
            refused.ends_with("a.jpeg: is not a PNG or JPEG picture"),
            "{refused}"
        );
        assert_eq!(sources[1].load().unwrap().width, 2);
    }

    #[test]
    fn every_bad_path_has_its_line_and_the_others_go_on() {
        let folder = Folder::new("paths").with("good", &encoded(colourful(2, 2), ImageFormat::Png));
        let empty = Folder::new("empty");
        let paths = [
            folder.0.join("missing\n.png"),
            empty.0.clone(),
            folder.0.join("good"),
        ];
        let (sources, bad) = gather(&paths, Path::new("out"));
        let lines: Vec<String> = bad.iter().map(BadInput::to_string).collect();
        assert!(
            lines[0].ends_with("missing\u{fffd}.png: there is no such file"),
            "{lines:?}"
        );
        assert!(
            lines[1].ends_with(": there is no PNG or JPEG file in this folder"),
            "{lines:?}"
        );
        assert_eq!(
            (lines.len(), sources.len(), sources[0].load().is_ok()),
            (2, 1, true)
        );
    }

    #[test]
    fn the_included_photographs_can_be_read() {
        let (sources, bad) = gather(&[], Path::new("out"));
        assert!(bad.is_empty());
        let sizes = sources.iter().map(|source| {
            source
                .load()
                .map(|picture| (picture.width, picture.height))
                .unwrap()
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [(512, 512), (1000, 872), (640, 427)]);
    }
}
