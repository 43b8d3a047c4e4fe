//! Names of kernels and variables: interned for the life of the process, and ordered by
//! resemblance.

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

/// The number of names that an error lists.
const LISTED_MAX: usize = 12;

/// The bytes of all interned names. A program may invent a name for each of its recordings.
const INTERNED_BYTES_MAX: usize = 1 << 20;

/// The place of names beyond [`INTERNED_BYTES_MAX`].
const OMITTED: &str = "(a name beyond the first MiB of names)";

/// Returns a name that lives as long as the process. Equal names are stored once. Beyond a bound on
/// all names together, further ones become [`OMITTED`].
pub(crate) fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<Option<Names>> = Mutex::new(None);
    NAMES.lock().get_or_insert_default().intern(name)
}

#[derive(Default)]
struct Names {
    names: FxHashSet<&'static str>,
    bytes: usize,
}

impl Names {
    fn intern(&mut self, name: &str) -> &'static str {
        if let Some(stored_name) = self.names.get(name) {
            return stored_name;
        }
        // Besides its text, a name takes an entry of the set.
        let bytes = name.len() + size_of::<&str>();
        if bytes > INTERNED_BYTES_MAX - self.bytes {
            return OMITTED;
        }
        self.bytes += bytes;
        let new: &'static str = Box::leak(name.into());
        self.names.insert(new);
        new
    }
}

/// Returns the names that resemble `wanted` most, in that order, for an error.
pub(super) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<_> = names
        .into_iter()
        .map(|name| {
            // A mangled name that contains the wanted one is nearer than any other.
            let contains = !wanted.is_empty() && name.contains(wanted);
            (if contains { 0 } else { distance(wanted, name) }, name)
        })
        .collect();
    names.sort();
    names.dedup();
    let names = names.into_iter().take(LISTED_MAX);
    names.map(|(_, name)| name.to_owned()).collect()
}

/// Returns the number of characters to insert, delete or replace to make one name of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, &found) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(found != letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// Returns whether `mangled` is the name of a function `name` outside of any namespace, as C++
/// compilers mangle it: `_Z5scalePfi` for `scale`.
pub(super) fn is_mangled(mangled: &str, name: &str) -> bool {
    let prefix = format!("_Z{}{name}", name.len());
    mangled.starts_with(&prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_stored_once() {
        let name = String::from("a name of the tests");
        let first = interned(&name);
        assert!(std::ptr::eq(first, interned(&name.clone())));
        assert_eq!(first, name);
    }

    #[test]
    fn names_are_bounded_and_the_first_ones_stay() {
        let mut names = Names::default();
        let first = names.intern("step 0");
        let last = (0..1_000_000)
            .map(|n| names.intern(&format!("step {n}")))
            .last();
        assert_eq!(last, Some(OMITTED));
        assert_eq!(names.intern(&"x".repeat(INTERNED_BYTES_MAX)), OMITTED);
        assert!(names.bytes <= INTERNED_BYTES_MAX && std::ptr::eq(first, names.intern("step 0")));
    }

    #[test]
    fn names_are_listed_by_resemblance() {
        assert_eq!(distance("scale", "scale"), 0);
        assert_eq!(distance("scale", "sclae"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = ["blur_rows", "scal", "_ZN6images5scaleEPf", "a"];
        assert_eq!(
            nearest("scale", names),
            ["_ZN6images5scaleEPf", "scal", "a", "blur_rows"]
        );
        let many: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
        let found = nearest("k1", many.iter().map(String::as_str));
        assert_eq!((found.len(), found[0].as_str()), (LISTED_MAX, "k1"));
    }

    #[test]
    fn mangled_names_are_recognised() {
        assert!(is_mangled("_Z5scalePfi", "scale") && is_mangled("_Z5scaleIfEvPT_", "scale"));
        assert!(!is_mangled("_Z6scalerPf", "scale") && !is_mangled("scale", "scale"));
    }
}
