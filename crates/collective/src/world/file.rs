//! A store in a folder that all ranks share.

use std::{
    fmt::Write as _,
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::rendezvous::{Rendezvous, VALUE_BYTES_MAX, check_lengths, remaining};
use millstream::Result;

use super::WorldError;

/// The longest name of a file on common file systems, less the prefix.
const NAME_BYTES_MAX: usize = 240;

/// The pauses between looks for a file: the first, and the limit that they grow to.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A store in a folder that all ranks share, for clusters with a common file system and no open
/// ports.
///
/// Each key is a file, which a rename puts in place, so that no rank reads half a value. The folder
/// must be new for every run of the program: keys of an earlier run would be found as if they had
/// been set in this one. A network file system may show a file to other machines some seconds
/// later. Every user with write access to the folder can set keys.
///
/// ```
/// use std::time::Duration;
/// use millstream_collective::world::{FileRendezvous, Rendezvous};
///
/// # let folder = std::env::temp_dir().join(format!("millstream-file-{}", std::process::id()));
/// let store = FileRendezvous::new(&folder)?;
/// store.set("id", &[1, 2, 3])?;
/// let other = FileRendezvous::new(&folder)?; // on another rank
/// assert_eq!(other.get("id", Duration::from_secs(10))?, [1, 2, 3]);
/// # drop(std::fs::remove_dir_all(&folder));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileRendezvous {
    folder: PathBuf,
}

impl FileRendezvous {
    /// Opens the store in this folder, and creates the folder if necessary.
    ///
    /// # Errors
    ///
    /// [`WorldError::Folder`] if the folder cannot be created.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        Ok(Self { folder })
    }

    fn path(&self, key: &str) -> Result<PathBuf, WorldError> {
        let name = file_name(key);
        if name.len() > NAME_BYTES_MAX {
            return Err(WorldError::TooLong {
                part: "key",
                bytes: name.len(),
                bytes_max: NAME_BYTES_MAX,
            });
        }
        Ok(self.folder.join(name))
    }
}

impl Rendezvous for FileRendezvous {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        check_lengths(key, value)?;
        let path = self.path(key)?;
        // A name that no other process has, on any machine.
        let number = RandomState::new().build_hasher().finish();
        let temporary = self.folder.join(format!("new-{number:016x}"));
        let put = fs::write(&temporary, value).and_then(|()| fs::rename(&temporary, &path));
        put.map_err(|error| {
            // The value was not put in place; its file is of no use.
            let _ = fs::remove_file(&temporary);
            failed(&path, &error).into()
        })
    }

    fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        let path = self.path(key)?;
        let start = Instant::now();
        let mut pause = PAUSE;
        loop {
            match read(&path) {
                Ok(value) => {
                    check_lengths(key, &value)?;
                    return Ok(value);
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&path, &error).into());
                }
                Err(_) => {}
            }
            let left = remaining(start, deadline);
            if left.is_zero() {
                return Err(WorldError::not_set(key, deadline).into());
            }
            thread::sleep(pause.min(left));
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

/// Reads a file, and no more than one byte beyond the longest value.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut value = Vec::new();
    let file = fs::File::open(path)?;
    file.take(VALUE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut value)?;
    Ok(value)
}

/// Returns the name of a key's file. Everything but lower-case letters, digits and `-` is written
/// as `%` and two digits, because some file systems ignore case and all reserve characters.
fn file_name(key: &str) -> String {
    let mut name = String::from("key-");
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(name, "%{byte:02x}")),
        }
    }
    name
}

fn failed(path: &Path, error: &io::Error) -> WorldError {
    WorldError::Folder {
        path: path.display().to_string().into(),
        cause: error.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_file() {
        let keys = ["a", "A", "a/b", "a_b", "../a", "%61", "é", ""];
        let mut names: Vec<String> = keys.iter().map(|key| file_name(key)).collect();
        for name in &names {
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-%".contains(&byte))
            );
            assert_eq!(*name, name.to_lowercase());
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), keys.len());
    }

    #[test]
    fn values_are_shared_replaced_and_waited_for() {
        let number = RandomState::new().build_hasher().finish();
        let folder = std::env::temp_dir().join(format!("millstream-store-{number:016x}"));
        let open = || FileRendezvous::new(&folder).expect("the folder is writable");
        let (here, there) = (open(), open());
        let setter = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            there.set("a/b", b"1").expect("the folder is writable");
        });
        let value = here.get("a/b", Duration::from_secs(20)).expect("it is set");
        setter.join().expect("no panic");
        assert_eq!(value, b"1");
        here.set("a/b", b"22").expect("the folder is writable");
        assert_eq!(open().get("a/b", Duration::ZERO).expect("it is set"), b"22");
        let error = here.get("c", Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.to_string(), "the key `c` was not set within 5ms");
        let error = here.set(&"x".repeat(500), b"").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the key of 504 bytes exceeds the limit of 240"
        );
        let long = fs::File::create(folder.join(file_name("long"))).expect("a new file");
        long.set_len(1 << 40).expect("it has holes");
        let error = here.get("long", Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("exceeds the limit of 67108864"), "{error}");
        fs::remove_dir_all(&folder).expect("the folder is this test's");
        let error = here.set("a", b"").unwrap_err().to_string();
        assert!(error.contains("as a store"), "{error}");
    }
}
