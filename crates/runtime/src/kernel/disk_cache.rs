//! The cache of compiled kernels on disk.
//!
//! An entry is a file whose name is the hash of everything that the compilation depended on, except
//! included files: those are listed in the entry, with their identities. Entries are written to a
//! temporary file and renamed, so that another process sees all of one or nothing, and begin with
//! the hash of their contents. Whatever cannot be read is compiled anew.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use millstream_driver::nvrtc::Compiled;

use super::{
    cuda_source::CacheChoice,
    includes::{self, Dependency},
    sha256::{hex, sha256},
};
use crate::disposal::log;

/// The environment variable with the cache's folder, or `off`.
pub(super) const VARIABLE: &str = "MILLSTREAM_KERNEL_CACHE";

/// The total size of the entries, in bytes, beyond which those that were used least recently are
/// deleted.
const BYTES_MAX: u64 = 512 << 20;

/// The age of a temporary file whose process must have ended.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// The first bytes of an entry, with the number of its format.
const MAGIC: &[u8] = b"millstream kernel 1\n";

/// A folder with compiled kernels.
#[derive(Debug)]
pub(super) struct DiskCache {
    folder: PathBuf,
    bytes_max: u64,
}

impl DiskCache {
    /// Returns the cache of this choice, or `None` if there is none.
    pub(super) fn of(choice: &CacheChoice) -> Option<Self> {
        let folder = match choice {
            CacheChoice::Off => return None,
            CacheChoice::Folder(folder) => folder.clone(),
            CacheChoice::Default => default_folder(&|name| std::env::var_os(name))?,
        };
        Some(Self {
            folder,
            bytes_max: BYTES_MAX,
        })
    }

    /// Returns the entry of this key, if it is intact and the files that it depends on are as they
    /// were.
    pub(super) fn load(&self, key: &[u8; 32]) -> Option<Compiled> {
        let path = self.entry(key);
        let bytes = fs::read(&path).ok()?;
        let Some((compiled, dependencies)) = decode(&bytes, key) else {
            let path = path.display().to_string();
            log!(debug, path, "a cached kernel is damaged");
            return None;
        };
        if !includes::unchanged(&dependencies) {
            return None;
        }
        // Entries are deleted in the order of their last use. In a folder that cannot be written
        // nothing is deleted either.
        let file = fs::File::options().append(true).open(&path);
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
        Some(compiled)
    }

    /// Writes an entry. A failure is logged: the next load then compiles again.
    pub(super) fn store(&self, key: &[u8; 32], compiled: &Compiled, dependencies: &[Dependency]) {
        let bytes = encode(key, compiled, dependencies);
        let stored = self.write(key, &bytes).and_then(|()| self.shrink());
        if let Err(error) = stored {
            let folder = self.folder.display().to_string();
            log!(debug, %error, folder, "cannot cache a kernel");
        }
    }

    fn entry(&self, key: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}.kernel", hex(key)))
    }

    fn write(&self, key: &[u8; 32], bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        create_private(&self.folder)?;
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let temporary = self.folder.join(format!("{process}-{number}.tmp"));
        let written = fs::write(&temporary, bytes);
        let renamed = written.and_then(|()| fs::rename(&temporary, self.entry(key)));
        if renamed.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&temporary);
        }
        renamed
    }

    /// Deletes the entries that were used least recently until the rest is small enough, and
    /// temporary files that were left behind.
    fn shrink(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut total = 0;
        for entry in fs::read_dir(&self.folder)? {
            let (path, metadata) =
                match entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) {
                    Ok(found) => found,
                    // Another process has deleted it.
                    Err(_) => continue,
                };
            let used = metadata.modified()?;
            let extension = path.extension().and_then(|extension| extension.to_str());
            match extension {
                Some("kernel") => {
                    total += metadata.len();
                    entries.push((used, metadata.len(), path));
                }
                Some("tmp") if used.elapsed().is_ok_and(|age| age > ABANDONED_AFTER) => {
                    remove(&path)?;
                }
                _ => {}
            }
        }
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= self.bytes_max {
                break;
            }
            remove(&path)?;
            total -= bytes;
        }
        Ok(())
    }
}

/// Deletes a file that another process may have deleted.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Creates a folder that only its user can access: machine code is loaded from it.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Returns the folder of the environment: the cache's own variable, or the user's cache.
fn default_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(own) = path(VARIABLE) {
        return (own != Path::new("off")).then_some(own);
    }
    let user = if cfg!(windows) {
        path("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        path("HOME").map(|home| home.join("Library/Caches"))
    } else {
        // The standard says that a relative path is to be ignored.
        let own = path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        own.or_else(|| path("HOME").map(|home| home.join(".cache")))
    };
    user.map(|folder| folder.join("millstream").join("kernels"))
}

/// Writes an entry: the magic, the hash of what follows, the key, and fields with their lengths.
fn encode(key: &[u8; 32], compiled: &Compiled, dependencies: &[Dependency]) -> Vec<u8> {
    let mut body = key.to_vec();
    let mut field = |bytes: &[u8]| {
        body.extend((bytes.len() as u64).to_le_bytes());
        body.extend(bytes);
    };
    field(compiled.ptx.as_bytes());
    field(compiled.log.as_bytes());
    field(compiled.cubin.as_deref().unwrap_or_default());
    field(compiled.lowered_names.join("\n").as_bytes());
    for (path, identity) in dependencies {
        field(path.as_os_str().as_encoded_bytes());
        field(identity.as_deref().unwrap_or_default().as_bytes());
    }
    let hash = sha256(&body);
    [MAGIC, &hash, &body].concat()
}

/// Reads an entry. `None` if it is not intact, or of another key.
fn decode(bytes: &[u8], key: &[u8; 32]) -> Option<(Compiled, Vec<Dependency>)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (hash, body) = rest.split_first_chunk::<32>()?;
    if sha256(body) != *hash {
        return None;
    }
    let mut fields = Fields(body.strip_prefix(key)?);
    let (ptx, log) = (fields.text()?, fields.text()?);
    let cubin = fields.next()?.to_vec();
    let lowered_names = fields.text()?;
    let mut dependencies = Vec::new();
    while !fields.0.is_empty() {
        let (path, identity) = (PathBuf::from(fields.text()?), fields.text()?);
        dependencies.push((path, (!identity.is_empty()).then_some(identity)));
    }
    let compiled = Compiled {
        ptx,
        cubin: (!cubin.is_empty()).then_some(cubin),
        lowered_names: lowered_names.lines().map(str::to_owned).collect(),
        log,
    };
    Some((compiled, dependencies))
}

/// The fields of an entry that are not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads a field.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (field, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    /// Reads a field that is a text.
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.next()?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(ptx: &str) -> Compiled {
        Compiled {
            ptx: ptx.to_owned(),
            cubin: Some(vec![1, 2, 3]),
            lowered_names: vec!["_Z1a".into(), "_Z1b".into()],
            log: "k.cu(1): warning #1-D: w".into(),
        }
    }

    fn cache(name: &str, bytes_max: u64) -> DiskCache {
        let name = format!("millstream-cache-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        DiskCache { folder, bytes_max }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let cache = cache("written", BYTES_MAX);
        let key = sha256(b"key");
        assert_eq!(cache.load(&key), None);
        let absent = (PathBuf::from("/millstream/no/such/header.h"), None);
        cache.store(&key, &compiled("ptx"), std::slice::from_ref(&absent));
        assert_eq!(cache.load(&key), Some(compiled("ptx")));
        assert_eq!(cache.load(&sha256(b"other")), None);
        let without = Compiled {
            ptx: "ptx".into(),
            ..Compiled::default()
        };
        cache.store(&key, &without, &[]);
        assert_eq!(cache.load(&key), Some(without), "an entry is replaced");
        let changed = (
            PathBuf::from("/millstream/no/such/header.h"),
            Some("then".into()),
        );
        cache.store(&key, &compiled("ptx"), &[changed]);
        assert_eq!(
            cache.load(&key),
            None,
            "a file that it depends on is another"
        );
        fs::remove_dir_all(&cache.folder).expect("a folder is removed");
    }

    #[test]
    fn no_entry_with_a_changed_byte_or_a_missing_end_is_read() {
        let key = sha256(b"key");
        let entry = encode(&key, &compiled("some ptx"), &[("/a/b.h".into(), None)]);
        assert!(decode(&entry, &key).is_some());
        assert!(
            decode(&entry, &sha256(b"other")).is_none(),
            "a renamed entry"
        );
        for at in 0..entry.len() {
            assert!(decode(&entry[..at], &key).is_none(), "cut at {at}");
            let mut damaged = entry.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged, &key).is_none(), "changed at {at}");
        }
    }

    #[test]
    fn the_least_recently_used_entries_are_deleted_beyond_the_bound() {
        let entry_bytes = encode(&[0; 32], &compiled("ptx"), &[]).len() as u64;
        let cache = cache("bound", 2 * entry_bytes);
        let keys = [sha256(b"0"), sha256(b"1"), sha256(b"2")];
        let past = |key, seconds| {
            let file = fs::File::options().append(true).open(cache.entry(key));
            let time = SystemTime::now() - Duration::from_secs(seconds);
            file.and_then(|file| file.set_modified(time))
                .expect("its time is set");
        };
        cache.store(&keys[0], &compiled("ptx"), &[]);
        cache.store(&keys[1], &compiled("ptx"), &[]);
        past(&keys[0], 200);
        past(&keys[1], 100);
        assert!(cache.load(&keys[0]).is_some(), "it is the youngest now");
        let left_behind = cache.folder.join("1-1.tmp");
        fs::write(&left_behind, "").expect("a file is written");
        let file = fs::File::options().append(true).open(&left_behind);
        let time = SystemTime::now() - 2 * ABANDONED_AFTER;
        file.and_then(|file| file.set_modified(time))
            .expect("its time is set");
        cache.store(&keys[2], &compiled("ptx"), &[]);
        let found = keys.map(|key| cache.load(&key).is_some());
        assert_eq!(found, [true, false, true]);
        assert!(!left_behind.exists());
        fs::remove_dir_all(&cache.folder).expect("a folder is removed");
    }

    #[test]
    fn the_folder_is_that_of_the_variable_or_the_users() {
        let folder = |variables: &[(&str, &str)]| {
            default_folder(&|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(folder(&[(VARIABLE, "off"), ("HOME", "/h")]), None);
        assert_eq!(folder(&[(VARIABLE, "/k")]), Some("/k".into()));
        assert_eq!(folder(&[]), None);
        #[cfg(target_os = "linux")]
        {
            let home = folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]);
            assert_eq!(home, Some("/h/.cache/millstream/kernels".into()));
            let own = folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]);
            assert_eq!(own, Some("/c/millstream/kernels".into()));
        }
    }
}
