//! Finding pictures: the files and folders that a user names, or the photographs that come with the
//! program.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Picture;
use super::decode::{decode, format};
use super::names::Names;
use super::problem::Problem;

/// The photographs that come with the program.
const INCLUDED: [(&str, &[u8]); 3] = [
    (
        "astronaut.png",
        include_bytes!("../../pictures/astronaut.png"),
    ),
    (
        "hubble_deep_field.jpg",
        include_bytes!("../../pictures/hubble_deep_field.jpg"),
    ),
    ("rocket.jpg", include_bytes!("../../pictures/rocket.jpg")),
];

/// A picture that has been found and not yet been read.
#[derive(Debug)]
pub(crate) struct Source {
    /// The name of its results; no two sources have the same.
    pub(crate) name: String,
    place: Place,
}

/// The location of a picture's bytes.
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

/// The pictures that `paths` name, in the order given and those of a folder in order of their
/// names; and every path without a picture. Without paths, the photographs that come with the
/// program. Their results go to `out`.
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
    /// Reads the picture: upright by its EXIF orientation, and on white where it is transparent.
    ///
    /// # Errors
    ///
    /// If the input is no readable picture; the error says in one line what is wrong.
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
    /// The path of a file, or the name of an included photograph.
    fn path(&self) -> &Path {
        match self {
            Place::File(path) => path,
            Place::Included { name, .. } => Path::new(name),
        }
    }

    fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path) => Some(path),
            Place::Included { .. } => None,
        }
    }
}

/// The path as text of one line.
fn label(path: &Path) -> String {
    path.to_string_lossy().replace(char::is_control, "\u{fffd}")
}

/// The file `path`, or the pictures directly in the folder `path`.
fn files(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let kind = path.metadata().map_err(Problem::of_file)?;
    if kind.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !kind.is_dir() {
        return Err(Problem::Special);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(Problem::of_file)? {
        let file = entry.map_err(Problem::of_file)?.path();
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

/// Returns whether a file in a folder has a picture's extension. Hidden files do not count.
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

/// The contents of the file `path`. If it is no picture, only its beginning is read.
fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut file = File::open(path).map_err(Problem::of_file)?;
    let mut bytes = Vec::new();
    file.by_ref()
        .take(16)
        .read_to_end(&mut bytes)
        .map_err(Problem::of_file)?;
    format(&bytes)?;
    file.read_to_end(&mut bytes).map_err(Problem::of_file)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest picture, as a file.
    fn png() -> Vec<u8> {
        let mut bytes = Vec::new();
        let encoder = png::Encoder::new(&mut bytes, 1, 1);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[7]).unwrap();
        writer.finish().unwrap();
        bytes
    }

    /// A fresh folder for one test, removed when it ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("millstream-{test}-{}", std::process::id()));
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
            // A folder that remains is in the system's temporary folder, and no test depends on it.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn folders_stand_for_their_pictures() {
        let png = png();
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
        assert_eq!(sources[1].load().unwrap().width, 1);
    }

    #[test]
    fn every_bad_path_has_its_line_and_the_others_go_on() {
        let folder = Folder::new("paths").with("good", &png());
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
        assert_eq!(
            sizes.collect::<Vec<_>>(),
            [(512, 512), (1000, 872), (640, 427)]
        );
    }
}
