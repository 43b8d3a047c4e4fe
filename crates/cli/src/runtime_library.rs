//! Writes CUDA's runtime library for one version of CUDA.
//!
//! Programs that nvcc compiled ask the loader for the symbol version `libcudart.so.12` or
//! `libcudart.so.13`. rustc passes a version script of its own to the linker, so that a library of
//! Rust cannot define such a version when it is linked. This file defines one afterwards. The
//! library has room for that in its data, the symbol `MILLSTREAM_CUDART`, and the names of the
//! versions in its table of strings. A version definition goes there, and a copy of the dynamic
//! section with entries that name the definition; the program header then refers to the copy. The
//! exported symbols change from no version to this one. No byte of the library moves.

use std::{env, ffi::OsStr, fs, path::Path, process::Command};

use crate::{executable::Executable, program::cannot};

/// The library, which a release build of this command carries.
#[cfg(all(target_os = "linux", not(debug_assertions)))]
static CARRIED_RUNTIME: Option<&[u8]> = millstream_macros::shared_library!(millstream_libcudart);
#[cfg(not(all(target_os = "linux", not(debug_assertions))))]
static CARRIED_RUNTIME: Option<&[u8]> = None;

/// The versions of CUDA that have a runtime library of their own.
pub(crate) const MAJORS: [u32; 2] = [12, 13];

/// The library as rustc made it.
const BUILT: &str = "libmillstream_libcudart.so";

/// The file name of the runtime library of a version of CUDA.
pub(crate) fn name(major: u32) -> String {
    format!("libcudart.so.{major}")
}

/// The symbol with the room: the version of CUDA and the size of the whole, 4 bytes each, then free
/// bytes.
const ROOM: &[u8] = b"MILLSTREAM_CUDART";

/// Numbers of the format (`elf.h`).
const SECTION_SYMBOLS: u32 = 11;
const SECTION_VERSIONS: u32 = 0x6fff_ffff;
const SECTION_REQUIRED: u32 = 0x6fff_fffe;
const SEGMENT_LOADED: u32 = 1;
const SEGMENT_DYNAMIC: u32 = 2;
const ENTRY_NAME: u64 = 14;
const ENTRY_DEFINITIONS: u64 = 0x6fff_fffc;
const ENTRY_DEFINITION_COUNT: u64 = 0x6fff_fffd;

/// The bytes of a library, whose numbers are little-endian.
struct File(Vec<u8>);

/// A table in the file: offset, size, and the number of the section that it refers to.
#[derive(Clone, Copy)]
struct Table {
    offset: usize,
    bytes: usize,
    link: usize,
}

impl File {
    fn number(&self, offset: usize, bytes: usize) -> Option<u64> {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(self.0.get(offset..offset.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(number))
    }

    fn size(&self, offset: usize) -> Option<usize> {
        self.number(offset, 8)?.try_into().ok()
    }

    fn put(&mut self, offset: usize, bytes: usize, number: u64) -> Option<()> {
        let place = self.0.get_mut(offset..offset.checked_add(bytes)?)?;
        place.copy_from_slice(&number.to_le_bytes()[..bytes]);
        Some(())
    }

    /// Returns the header of a section by its number.
    fn section(&self, number: usize) -> Option<usize> {
        let count = self.number(60, 2)? as usize;
        let header = self.size(40)?.checked_add(number * 64)?;
        (number < count && header.checked_add(64)? <= self.0.len()).then_some(header)
    }

    fn table(&self, header: usize) -> Option<Table> {
        Some(Table {
            offset: self.size(header + 24)?,
            bytes: self.size(header + 32)?,
            link: self.number(header + 40, 4)? as usize,
        })
    }

    fn table_of_kind(&self, kind: u32) -> Option<Table> {
        let mut sections = (0..).map_while(|number| self.section(number));
        let header = sections.find(|header| self.number(header + 4, 4) == Some(kind.into()))?;
        self.table(header)
    }

    /// Returns the header of the first segment of a kind that `is_meant` accepts.
    fn segment(&self, kind: u32, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        let (start, count) = (self.size(32)?, self.number(56, 2)? as usize);
        let headers = self.0.len().checked_sub(start)? / 56;
        let mut headers = (0..count.min(headers)).map(|number| start + number * 56);
        headers.find(|at| self.number(*at, 4) == Some(kind.into()) && is_meant(*at))
    }

    /// Returns the offset of a loaded address.
    fn offset_of(&self, address: usize) -> Option<usize> {
        let part = |at: usize| Some((self.size(at + 8)?, self.size(at + 16)?, self.size(at + 32)?));
        let has = |at| {
            part(at).is_some_and(|(_, start, bytes)| {
                address
                    .checked_sub(start)
                    .is_some_and(|inside| inside < bytes)
            })
        };
        let (offset, start, _) = part(self.segment(SEGMENT_LOADED, has)?)?;
        Some(offset + (address - start))
    }

    /// Returns the offset of a text, which ends with a zero byte, in a table of strings.
    fn text(&self, strings: Table, text: &[u8]) -> Option<usize> {
        let table = self
            .0
            .get(strings.offset..strings.offset.checked_add(strings.bytes)?)?;
        let ended = [&[0], text, &[0]].concat();
        let before = table
            .windows(ended.len())
            .position(|window| window == ended)?;
        Some(before + 1)
    }
}

/// Returns the hash of a name in version definitions.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// Returns the library with the symbol version of a version of CUDA; `None` if the bytes are not
/// those of the runtime library for a 64-bit system.
fn of_version(library: &[u8], major: u32) -> Option<Vec<u8>> {
    let mut file = File(library.to_vec());
    let symbols = file.table_of_kind(SECTION_SYMBOLS)?;
    let versions = file.table_of_kind(SECTION_VERSIONS)?;
    let strings = file.table(file.section(symbols.link)?)?;
    let name_at = |file: &File, name: &[u8]| file.text(strings, name);
    let version = name(major);
    let version_name = name_at(&file, version.as_bytes())? as u64;
    let room_name = name_at(&file, ROOM)? as u64;

    // Symbols that are defined here and have no version get the new one, whose number is free.
    let required = file.table_of_kind(SECTION_REQUIRED);
    let numbers = (0..versions.bytes / 2).map(|index| file.number(versions.offset + 2 * index, 2));
    let used = numbers.flatten().map(|number| number & 0x7fff).max()?;
    let new = used.max(required.map_or(1, |table| table.bytes as u64 / 16)) + 1;
    let mut room = None;
    for index in 0..symbols.bytes / 24 {
        let (symbol, place) = (symbols.offset + 24 * index, versions.offset + 2 * index);
        let is_defined = file.number(symbol + 6, 2)? != 0;
        if file.number(symbol, 4)? == room_name && is_defined {
            room = Some(file.size(symbol + 8)?);
        }
        if is_defined && file.number(place, 2)? == 1 {
            file.put(place, 2, new)?;
        }
    }
    let room_address = room?;
    let room = file.offset_of(room_address)?;
    let end = room + file.number(room + 4, 4)? as usize;
    file.put(room, 4, major.into())?;

    // The definition of the file itself, and that of the version, 28 bytes each.
    let definitions = room + 8;
    let hash = u64::from(hash(&version));
    let of_file = [1 | 1 << 16, 1 | 1 << 16, hash, 20, 28, version_name, 0];
    let of_version = [1, new | 1 << 16, hash, 20, 0, version_name, 0];
    for (index, word) in of_file.into_iter().chain(of_version).enumerate() {
        file.put(definitions + 4 * index, 4, word)?;
    }

    let segment = file.segment(SEGMENT_DYNAMIC, |_| true)?;
    let (mut from, dynamic) = (file.size(segment + 8)?, definitions + 56);
    let mut entries = Vec::new();
    while file.number(from, 8)? != 0 {
        entries.push([file.number(from, 8)?, file.number(from + 8, 8)?]);
        from += 16;
    }
    entries.retain(|[tag, _]| *tag != ENTRY_NAME);
    let address_of = |offset: usize| (offset - room + room_address) as u64;
    entries.push([ENTRY_NAME, version_name]);
    entries.push([ENTRY_DEFINITIONS, address_of(definitions)]);
    entries.extend([[ENTRY_DEFINITION_COUNT, 2], [0, 0]]);
    for (index, word) in entries.iter().flatten().enumerate() {
        file.put(dynamic + 8 * index, 8, *word)?;
    }
    let (bytes, address) = (16 * entries.len(), address_of(dynamic));
    let header = [dynamic as u64, address, address, bytes as u64, bytes as u64];
    for (index, word) in header.into_iter().enumerate() {
        file.put(segment + 8 + 8 * index, 8, word)?;
    }
    (dynamic + bytes <= end).then_some(file.0)
}

/// Writes the library for each version to a folder: from the one that this command carries, or else
/// from the one beside the driver. A driver that is named with `--library` may have none.
pub(crate) fn write(driver: &Path, folder: &Path) -> Result<(), String> {
    let built = driver.with_file_name(BUILT);
    let library = match CARRIED_RUNTIME {
        Some(carried) => carried.to_vec(),
        None if !built.is_file() => return Ok(()),
        None => fs::read(&built).map_err(|error| cannot("read", &built, &error))?,
    };
    for major in MAJORS {
        let path = folder.join(name(major));
        let written = of_version(&library, major)
            .ok_or_else(|| format!("{} is not Millstream's runtime library", built.display()))?;
        fs::write(&path, written).map_err(|error| cannot("write", &path, &error))?;
    }
    Ok(())
}

/// Loads the library ahead of one that the loader would find first otherwise, by a path in the
/// executable.
pub(crate) fn preload(program: &OsStr, folder: &Path, command: &mut Command) {
    let majors = Executable::find(program).map(|it| it.runtimes_found_first());
    let majors = majors.unwrap_or_default().into_iter();
    let files = majors.map(|major| folder.join(name(major)));
    let files: Vec<_> = files.filter(|file| file.is_file()).collect();
    // The loader takes a list that spaces and colons separate.
    let paths = files.iter().filter_map(|file| file.to_str());
    let paths: Vec<_> = paths.filter(|path| !path.contains([' ', ':'])).collect();
    if !paths.is_empty() {
        let before = env::var("LD_PRELOAD").unwrap_or_default();
        command.env("LD_PRELOAD", format!("{} {before}", paths.join(" ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_the_loader_does_it_and_other_bytes_are_refused() {
        assert_eq!(hash("GLIBC_2.2.5"), 0x0969_1a75);
        for bytes in [&b""[..], b"\x7fELF", &[0xff; 4096], &[0; 4096]] {
            assert!(of_version(bytes, 13).is_none());
        }
    }
}
