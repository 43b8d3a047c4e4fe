//! Names of results: unique for each picture, and never the name of an input.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most bytes of an input's name that the names of its results contain: file systems allow 255
/// bytes in all.
const BYTES_MAX: usize = 200;

/// The paths of the two results of the picture `name`.
pub(super) fn outputs(out: &Path, name: &str) -> [PathBuf; 2] {
    ["edges-NAME.png", "histogram-NAME.svg"].map(|file| out.join(file.replace("NAME", name)))
}

/// Chooses names for results in one folder.
pub(super) struct Names {
    out: PathBuf,
    inputs: BTreeSet<PathBuf>,
    /// The names in use, in lower case, since some file systems ignore case.
    taken: BTreeSet<String>,
}

impl Names {
    /// Names for results in `out` that do not overwrite the files `inputs`.
    pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>) -> Names {
        let inputs = inputs.filter_map(|path| path.canonicalize().ok()).collect();
        Names {
            out: out.canonicalize().unwrap_or_else(|_| out.to_owned()),
            inputs,
            taken: BTreeSet::new(),
        }
    }

    /// A new name for the results of the file `path`: its stem, with a number appended if that name
    /// is in use.
    pub(super) fn name(&mut self, path: &Path) -> String {
        let stem = path
            .file_stem()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let whole_letters = (0..=stem.len().min(BYTES_MAX))
            .rev()
            .find(|&bytes| stem.is_char_boundary(bytes));
        let stem = &stem[..whole_letters.unwrap_or(0)];
        let candidates =
            std::iter::once(stem.to_owned()).chain((2..).map(|number| format!("{stem}-{number}")));
        let is_free = |name: &String| {
            !self.taken.contains(&name.to_lowercase())
                && !outputs(&self.out, name)
                    .iter()
                    .any(|path| self.inputs.contains(path))
        };
        let name = candidates
            .into_iter()
            .find(is_free)
            .expect("there are more numbers than pictures");
        self.taken.insert(name.to_lowercase());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of results after these paths, in this order.
    fn named(paths: &[&str]) -> Vec<String> {
        let mut names = Names::new(Path::new("out"), std::iter::empty());
        paths
            .iter()
            .map(|path| names.name(Path::new(path)))
            .collect()
    }

    #[test]
    fn equal_stems_get_numbers() {
        assert_eq!(
            named(&["a/x.png", "b/x.jpg", "x.jpeg", "y.png"]),
            ["x", "x-2", "x-3", "y"]
        );
        assert_eq!(named(&["x.png", "x-2.png", "x.jpg"]), ["x", "x-2", "x-3"]);
        assert_eq!(named(&["x-2.png", "x.png", "x.jpg"]), ["x-2", "x", "x-3"]);
        assert_eq!(named(&["Tree.png", "tree.png"]), ["Tree", "tree-2"]);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "é".repeat(150);
        assert_eq!(
            named(&[&long, &long]),
            ["é".repeat(100), format!("{}-2", "é".repeat(100))]
        );
    }

    #[test]
    fn an_input_is_never_the_name_of_a_result() {
        let folder = std::env::temp_dir().join(format!("millstream-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let input = folder.join("edges-x.png");
        std::fs::write(&input, "").unwrap();
        let mut names = Names::new(&folder, std::iter::once(input.as_path()));
        assert_eq!(names.name(Path::new("x.png")), "x-2");
        assert_eq!(names.name(Path::new("y.png")), "y");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
