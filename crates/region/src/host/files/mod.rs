//! Files of named tensors: arrays and whole structs are read straight to a device, and written.
//!
//! There is one copy of the elements on the host: they are read, or copied from the mapped file,
//! into page-locked memory, from which the device copies them.

mod npy;
#[cfg(feature = "safetensors")]
mod safetensors;

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use millstream::Device;
use ndarray::Dimension;
use parking_lot::Mutex;

#[cfg(feature = "safetensors")]
pub use safetensors::SafeTensors;

use crate::{
    Array, Region,
    element::{DType, Element},
    error::{Error, Line, Result, TensorFileError, TensorFileProblem, UsageError, UsageErrorKind},
    expr::{NodeRef, Session, shape_error},
    host::{ArrayDownload, OutputNode, PendingValue},
    run::evaluate,
    shape::Shape,
};

/// The number of bytes that are read at once. Two chunks of page-locked memory are in use while a
/// large tensor is read.
const CHUNK: usize = 32 << 20;

/// The greatest number of items of a list for each tensor of its file. Items may be `None`, so a
/// list can be longer than the file has tensors, but one name must not ask for all memory.
const ITEMS_PER_TENSOR: usize = 16;

/// A tensor in a file.
pub(crate) struct Entry {
    /// The element type, or the file's name for one that arrays do not have.
    dtype: std::result::Result<DType, String>,
    shape: Vec<usize>,
    /// The offset of the elements in the file.
    start: u64,
}

/// A file of named tensors. One of a single tensor gives it the name "".
pub(crate) struct TensorFile {
    path: PathBuf,
    file: Mutex<File>,
    /// The bytes of the file, if it is mapped.
    mapped: Option<Box<dyn AsRef<[u8]> + Send + Sync>>,
    /// The names of the tensors, sorted.
    names: Vec<String>,
    /// The tensors, in the order of their names.
    entries: Vec<Entry>,
}

impl TensorFile {
    /// Reads at an offset.
    fn read(&self, start: u64, target: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock();
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(target)
    }

    /// Returns the bytes at an offset, if they are in memory.
    fn mapped(&self, start: u64, length: usize) -> Option<&[u8]> {
        let bytes = (**self.mapped.as_ref()?).as_ref();
        bytes.get(usize::try_from(start).ok()?..)?.get(..length)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let at = self.names.binary_search_by(|other| other[..].cmp(name));
        Some(&self.entries[at.ok()?])
    }
}

/// Returns the name of a part: of a struct's field, or of an item with its number.
#[doc(hidden)]
#[must_use]
pub fn part_name(whole: &str, part: &str) -> String {
    match (whole, part) {
        ("", part) => part.to_owned(),
        (whole, "") => whole.to_owned(),
        (whole, part) => format!("{whole}.{part}"),
    }
}

/// A value that is read from a file.
#[doc(hidden)]
pub struct TensorReader<'a> {
    file: &'a TensorFile,
    /// The session of the copies.
    session: Arc<Session>,
    /// The session of the arrays, which does not keep the streams of the copies alive.
    alone: Arc<Session>,
    line: Line,
}

impl<'a> TensorReader<'a> {
    fn new(file: &'a TensorFile, device: &Device, line: Line) -> Self {
        let [session, alone] = [(); 2].map(|()| Session::new(device.clone()));
        Self {
            file,
            session,
            alone,
            line,
        }
    }

    fn error(&self, name: &str, problem: TensorFileProblem) -> Error {
        TensorFileError::new(&self.file.path, name, problem).into()
    }

    /// Returns whether there is a tensor of this name, or one whose name begins with it and a dot.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.file.entry(name).is_some() || self.parts(name).next().is_some()
    }

    /// Returns the names behind this one and a dot.
    fn parts(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let names = &self.file.names;
        let start = if name.is_empty() {
            String::new()
        } else {
            format!("{name}.")
        };
        let first = names.partition_point(|other| *other < start);
        names[first..]
            .iter()
            .map_while(move |other| other.strip_prefix(&start))
    }

    /// Returns the number of items of a list: the greatest number in the names, and 1.
    pub(crate) fn items(&self, name: &str) -> Result<usize> {
        // As `part_name` writes it: `+2` and `02` are other names.
        let number = |part: &str| {
            let text = part.split('.').next()?;
            text.parse()
                .ok()
                .filter(|item: &usize| item.to_string() == text)
        };
        let numbers = self.parts(name).filter_map(number);
        let greatest: Option<usize> = numbers.max();
        let first = || self.error(&part_name(name, "0"), TensorFileProblem::Missing);
        let greatest = greatest.ok_or_else(first)?;
        let tensors = self.file.names.len();
        if greatest >= tensors * ITEMS_PER_TENSOR {
            let detail = format!("a list has item {greatest}, and the file {tensors} tensors");
            return Err(self.error(name, TensorFileProblem::Malformed(detail)));
        }
        Ok(greatest + 1)
    }

    /// Copies the tensor of this name to the device.
    pub(crate) fn array<T: Element, D: Dimension>(&self, name: &str) -> Result<Array<T, D>> {
        let entry = self.entry::<T>(name)?;
        if let Some(axes) = D::NDIM.filter(|&axes| axes != entry.shape.len()) {
            let shape = entry.shape[..].into();
            return Err(self.error(name, TensorFileProblem::Axes { axes, shape }));
        }
        if let Some(problem) = shape_error(T::DTYPE, &entry.shape) {
            return Err(self.error(name, TensorFileProblem::Malformed(problem.to_string())));
        }
        let elements: usize = entry.shape.iter().product();
        let bytes = elements * T::DTYPE.bytes();
        let device = &self.session.device;
        let stream = self.session.streams().first(device)?;
        let shape = Shape::from_slice(&entry.shape);
        let stored = |buffer| {
            let node = self.alone.stored(T::DTYPE, shape, buffer, self.line);
            Array::of(&self.alone, node)
        };
        if let Some(mapped) = self.file.mapped(entry.start, bytes) {
            self.check(name, mapped, T::DTYPE)?;
            return Ok(stored(stream.upload(mapped)?));
        }
        let mut buffer = stream.zeros::<u8>(bytes)?;
        for start in (0..bytes).step_by(CHUNK) {
            let end = bytes.min(start + CHUNK);
            let mut chunk = device.pinned::<u8>(end - start)?;
            self.fill(
                name,
                entry.start + start as u64,
                &mut chunk.write()?,
                T::DTYPE,
            )?;
            stream.copy(&chunk, buffer.slice_mut(start..end))?;
        }
        Ok(stored(buffer))
    }

    /// Reads the only element of the tensor of this name.
    pub(crate) fn number<T: Element>(&self, name: &str) -> Result<T> {
        let entry = self.entry::<T>(name)?;
        if entry.shape.iter().any(|&length| length != 1) {
            let (axes, shape) = (0, entry.shape[..].into());
            return Err(self.error(name, TensorFileProblem::Axes { axes, shape }));
        }
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..T::DTYPE.bytes()];
        self.fill(name, entry.start, bytes, T::DTYPE)?;
        Ok(T::load(bytemuck::pod_read_unaligned(bytes)))
    }

    /// Reads the only element of the tensor of this name, a number of items.
    pub(crate) fn size(&self, name: &str) -> Result<usize> {
        let size = self.number::<u64>(name)?;
        usize::try_from(size)
            .map_err(|error| self.error(name, TensorFileProblem::Malformed(error.to_string())))
    }

    /// Returns the error of a value that files of tensors do not hold.
    pub(crate) fn no_tensor<T>(&self, name: &str) -> Error {
        let ty = std::any::type_name::<T>();
        self.error(name, TensorFileProblem::NoTensor { ty })
    }

    fn entry<T: Element>(&self, name: &str) -> Result<&'a Entry> {
        let entry = self.file.entry(name);
        let entry = entry.ok_or_else(|| self.error(name, TensorFileProblem::Missing))?;
        let found = match &entry.dtype {
            Ok(dtype) if *dtype == T::DTYPE => return Ok(entry),
            Ok(dtype) => dtype.name().to_owned(),
            Err(other) => other.clone(),
        };
        let expected = T::DTYPE.name();
        Err(self.error(name, TensorFileProblem::ElementType { expected, found }))
    }

    fn fill(&self, name: &str, start: u64, target: &mut [u8], dtype: DType) -> Result<()> {
        let read = self.file.read(start, target);
        read.map_err(|error| self.error(name, TensorFileProblem::Io(Arc::new(error))))?;
        self.check(name, target, dtype)
    }

    /// Returns an error if the bytes are no elements of the type.
    fn check(&self, name: &str, bytes: &[u8], dtype: DType) -> Result<()> {
        if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            let detail = "a `bool` is neither 0 nor 1".to_owned();
            return Err(self.error(name, TensorFileProblem::Malformed(detail)));
        }
        Ok(())
    }
}

/// A value that is written to a file: the names of its tensors.
#[doc(hidden)]
pub struct TensorWriter<'a> {
    path: &'a Path,
    tensors: Vec<(String, Tensor)>,
}

/// The function that adds the tensors of a value of type `B` under a name.
type WriteBody<B> = fn(&B, &mut TensorWriter<'_>, &str) -> Result<()>;

/// A tensor to be written.
enum Tensor {
    Array(NodeRef),
    Number(DType, Vec<u8>),
}

impl Tensor {
    fn dtype(&self) -> DType {
        match self {
            Self::Array(node) => node.dtype,
            Self::Number(dtype, _) => *dtype,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Array(node) => &node.shape,
            Self::Number(..) => &[],
        }
    }

    fn bytes(&self) -> usize {
        self.dtype().bytes() * self.shape().iter().product::<usize>()
    }
}

impl<'a> TensorWriter<'a> {
    fn new(path: &'a Path) -> Self {
        let tensors = Vec::new();
        Self { path, tensors }
    }

    pub(crate) fn array<T, D>(&mut self, name: &str, array: &Array<T, D>) {
        let node = OutputNode::of(array).0;
        self.tensors.push((name.to_owned(), Tensor::Array(node)));
    }

    pub(crate) fn number<T: Element>(&mut self, name: &str, number: T) {
        let bytes = bytemuck::cast_slice(T::stored(&[number])).to_vec();
        self.tensors
            .push((name.to_owned(), Tensor::Number(T::DTYPE, bytes)));
    }

    /// Returns the error of a value that files of tensors do not hold.
    pub(crate) fn no_tensor<T>(&self, name: &str) -> Error {
        let ty = std::any::type_name::<T>();
        TensorFileError::new(self.path, name, TensorFileProblem::NoTensor { ty }).into()
    }

    /// Adds the tensors of a value, of which there is at least one.
    pub(crate) fn present<B>(&mut self, name: &str, body: &B, write: WriteBody<B>) -> Result<()> {
        let before = self.tensors.len();
        write(body, self, name)?;
        if self.tensors.len() == before {
            return Err(self.lost(name));
        }
        Ok(())
    }

    /// Adds the tensors of the items of a list, so that a reader finds their number.
    pub(crate) fn list<B>(&mut self, name: &str, items: &[B], write: WriteBody<B>) -> Result<()> {
        let first = || part_name(name, "0");
        let (last, others) = items.split_last().ok_or_else(|| self.lost(&first()))?;
        self.items(name, others, write)?;
        self.present(&part_name(name, &others.len().to_string()), last, write)?;
        if others.len() >= self.tensors.len() * ITEMS_PER_TENSOR {
            return Err(self.lost(&first()));
        }
        Ok(())
    }

    /// Adds the tensors of items, each under its number.
    pub(crate) fn items<B>(&mut self, name: &str, items: &[B], write: WriteBody<B>) -> Result<()> {
        let mut items = items.iter().enumerate();
        items.try_for_each(|(item, body)| write(body, self, &part_name(name, &item.to_string())))
    }

    fn lost(&self, name: &str) -> Error {
        TensorFileError::new(self.path, name, TensorFileProblem::Lost).into()
    }

    /// Writes a header and the tensors to a new file, which then replaces the old one.
    fn write(self, device: &Device, header: &[u8], line: Line) -> Result<()> {
        let session = Session::new(device.clone());
        let arrays = self.tensors.iter().filter_map(|(_, tensor)| match tensor {
            Tensor::Array(node) => Some(NodeRef::clone(node)),
            Tensor::Number(..) => None,
        });
        let nodes: Vec<NodeRef> = arrays.collect();
        if let Some(node) = nodes.iter().find(|node| node.device != *device) {
            let problem = UsageErrorKind::other_device(device, &node.device);
            return Err(UsageError::new("write of a file", problem, line).into());
        }
        evaluate::evaluate(&session, &nodes)?;
        session.check_result(&nodes)?.wait()?;
        let failed = |error: io::Error| -> Error {
            let problem = TensorFileProblem::Io(Arc::new(error));
            TensorFileError::new(self.path, "", problem).into()
        };
        let folder = self.path.parent().filter(|folder| *folder != Path::new(""));
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has permissions"))]
        let mut partial = tempfile::Builder::new();
        // As a new file of the program's own.
        #[cfg(unix)]
        partial.permissions(PermissionsExt::from_mode(0o666));
        let partial = partial.tempfile_in(folder.unwrap_or(Path::new(".")));
        let mut file = BufWriter::new(partial.map_err(failed)?);
        file.write_all(header).map_err(failed)?;
        for (_, tensor) in &self.tensors {
            match tensor {
                Tensor::Number(_, bytes) => file.write_all(bytes).map_err(failed)?,
                Tensor::Array(node) => {
                    let bytes = download(&session, node)?;
                    file.write_all(&bytes).map_err(failed)?;
                }
            }
        }
        let partial = file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        partial.as_file().sync_all().map_err(failed)?;
        partial
            .persist(self.path)
            .map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Downloads the bytes of an evaluated node.
fn download(session: &Arc<Session>, node: &NodeRef) -> Result<Vec<u8>> {
    let bytes = Array::<u8, ndarray::Ix1>::of(session, NodeRef::clone(node));
    let mut download = ArrayDownload::begin_transfer(&bytes, &Region::of(session))?;
    download.wait()?;
    Ok(download.into_stored())
}
