//! The cache of compiled kernels on disk.
//!
//! An entry is a file whose name is the hash of everything that the compilation depended on, except
//! included files: those are listed in the entry, with the hashes of their contents. Entries are
//! written to a temporary file and renamed, so that another process sees all of one or nothing, and
//! begin with the hash of their contents. An entry that cannot be read is compiled anew.
//!
//! Machine code is loaded from the folder, so it is used only if other users can change nothing in
//! it: see [`check_trust`].

#![allow(unsafe_code, reason = "asks for the user of the process")]

use std::{
    ffi::OsString,
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    path::{self, Path, PathBuf},
    sync::Once,
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
const MAGIC: &[u8] = b"millstream kernel 2\n";

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
            folder: path::absolute(folder).ok()?,
            bytes_max: BYTES_MAX,
        })
    }

    /// Returns the entry of this key, if it is intact and the files that it depends on are as they
    /// were.
    pub(super) fn load(&self, key: &[u8; 32]) -> Option<Compiled> {
        self.is_trusted().then_some(())?;
        let path = self.entry(key);
        let (file, bytes) = read_regular(&path, false).ok()?;
        let Some((compiled, dependencies)) = decode(&bytes, key) else {
            let path = path.display().to_string();
            log!(debug, path, "a cached kernel is damaged");
            return None;
        };
        if !includes::unchanged(&dependencies) {
            return None;
        }
        // Entries are deleted in the order of their last use. A folder that cannot be written keeps
        // all of them.
        let _ = file.set_modified(SystemTime::now());
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
        create_private(&self.folder)?;
        if !self.is_trusted() {
            return Ok(());
        }
        // Processes of several containers may have the same number.
        let number = RandomState::new().hash_one(std::process::id());
        let temporary = self.folder.join(format!("{number:016x}.tmp"));
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&temporary);
        let written = file.and_then(|mut file| file.write_all(bytes));
        let renamed = written.and_then(|()| fs::rename(&temporary, self.entry(key)));
        if renamed.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&temporary);
        }
        renamed
    }

    /// Returns whether other users cannot change the folder; logs once in a process if they can.
    fn is_trusted(&self) -> bool {
        static SAID: Once = Once::new();
        let trust = check_trust(&self.folder);
        if let Err(error) = &trust
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            let (error, folder) = (error.to_string(), self.folder.display().to_string());
            SAID.call_once(|| log!(warn, error, folder, "the cache of kernels is not used"));
        }
        trust.is_ok()
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

/// Checks that no user but this one and the superuser can put files into a folder, or put another
/// folder in its place.
#[cfg(unix)]
fn check_trust(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    // SAFETY: the function only returns a number.
    let user = unsafe { libc::geteuid() };
    let folder = folder.canonicalize()?;
    for above in folder.ancestors() {
        let metadata = fs::metadata(above)?;
        let (is_top, mode) = (above == folder, metadata.mode());
        let is_owned = metadata.uid() == user || (!is_top && metadata.uid() == 0);
        // Below a sticky folder, as temporary ones are, only owners rename their files.
        let is_closed = mode & 0o022 == 0 || (!is_top && mode & 0o1000 != 0);
        if !metadata.is_dir() || !is_owned || !is_closed {
            let above = above.display();
            let problem = format!("{above} belongs to another user, or others can write it");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
    }
    Ok(())
}

/// Checks that the folder is there: by default it is in the user's own profile.
#[cfg(not(unix))]
fn check_trust(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(|_| ())
}

/// Opens a regular file and reads it. Other kinds, such as named pipes, are errors and are not
/// waited for, and so are symbolic links unless the caller follows them.
pub(super) fn read_regular(path: &Path, follow: bool) -> io::Result<(File, Vec<u8>)> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        let link = if follow { 0 } else { libc::O_NOFOLLOW };
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, link | libc::O_NONBLOCK);
    }
    let is_link = cfg!(not(unix)) && fs::symlink_metadata(path)?.is_symlink();
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() || (is_link && !follow) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

/// Returns the folder of the environment: the cache's own variable, or the user's cache.
fn default_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(own) = variable(VARIABLE).filter(|value| !value.is_empty()) {
        return (own != "off").then(|| own.into());
    }
    // The standard says that a relative path is to be ignored.
    let path = |name: &str| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let user = if cfg!(windows) {
        path("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        path("HOME").map(|home| home.join("Library/Caches"))
    } else {
        path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")))
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
    for (path, hash) in dependencies {
        field(path.as_bytes());
        field(hash.as_ref().map_or(&[], |hash| hash));
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
        let (path, hash) = (fields.text()?, fields.next()?);
        dependencies.push((path, hash.try_into().ok()));
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
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (field, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

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
        let absent = ("/millstream/no/such/header.h".to_owned(), None);
        cache.store(&key, &compiled("ptx"), std::slice::from_ref(&absent));
        assert_eq!(cache.load(&key), Some(compiled("ptx")));
        assert_eq!(cache.load(&sha256(b"other")), None);
        let without = Compiled {
            ptx: "ptx".into(),
            ..Compiled::default()
        };
        cache.store(&key, &without, &[]);
        assert_eq!(cache.load(&key), Some(without), "an entry is replaced");
        let changed = (absent.0, Some(sha256(b"then")));
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
            assert_eq!(folder(&[("HOME", "home")]), None);
            let home = folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]);
            assert_eq!(home, Some("/h/.cache/millstream/kernels".into()));
            let own = folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]);
            assert_eq!(own, Some("/c/millstream/kernels".into()));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_or_an_entry_that_others_can_exchange_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let above = cache("trust", BYTES_MAX).folder;
        let cache = DiskCache {
            folder: above.join("kernels"),
            bytes_max: BYTES_MAX,
        };
        let key = sha256(b"key");
        let entry = cache.entry(&key);
        let allow = |folder: &Path, mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder, mode).expect("its mode is set");
        };
        cache.store(&key, &compiled("ptx"), &[]);
        assert!(cache.load(&key).is_some());
        for (folder, mode) in [
            (&cache.folder, 0o770),
            (&cache.folder, 0o707),
            (&above, 0o777),
        ] {
            allow(folder, mode);
            assert!(cache.load(&key).is_none(), "{mode:o}");
            let before = fs::read_dir(&cache.folder).expect("a folder").count();
            cache.store(&sha256(b"other"), &compiled("ptx"), &[]);
            let after = fs::read_dir(&cache.folder).expect("a folder").count();
            assert_eq!(before, after, "nothing is written");
            allow(folder, 0o700);
        }
        allow(&above, 0o1777);
        assert!(cache.load(&key).is_some(), "others rename nothing in it");
        // Only the superuser can give a folder away.
        if std::os::unix::fs::chown(&cache.folder, Some(12345), None).is_ok() {
            assert!(cache.load(&key).is_none(), "it belongs to another user");
            std::os::unix::fs::chown(&cache.folder, Some(0), None).expect("it is taken back");
        }

        let moved = above.join("moved");
        fs::rename(&entry, &moved).expect("it is moved");
        symlink(&moved, &entry).expect("a link is made");
        assert!(cache.load(&key).is_none(), "links are not followed");
        fs::remove_file(&entry).expect("it is removed");
        let made = std::process::Command::new("mkfifo").arg(&entry).status();
        assert!(
            made.is_err() || cache.load(&key).is_none(),
            "pipes are not waited for"
        );
        fs::remove_dir_all(&above).expect("a folder is removed");
    }
}
