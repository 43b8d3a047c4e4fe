//! Files of NumPy with one array.

use std::{
    fs::File,
    io::{self, Read, Seek},
    panic::Location,
    path::Path,
    sync::Arc,
};

use millstream::Device;
use ndarray::Dimension;
use parking_lot::Mutex;

use crate::{
    Array,
    element::{DType, Element},
    error::{Result, TensorFileError, TensorFileProblem},
    host::{
        OnDevice,
        files::{Entry, TensorFile, TensorReader, TensorWriter},
    },
};

/// The first bytes of a file.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

const TYPES: [(DType, &str); 12] = [
    (DType::F16, "<f2"),
    (DType::F32, "<f4"),
    (DType::F64, "<f8"),
    (DType::I8, "|i1"),
    (DType::I16, "<i2"),
    (DType::I32, "<i4"),
    (DType::I64, "<i8"),
    (DType::U8, "|u1"),
    (DType::U16, "<u2"),
    (DType::U32, "<u4"),
    (DType::U64, "<u8"),
    (DType::Bool, "|b1"),
];

impl<T: Element, D: Dimension> Array<T, D> {
    /// Reads a `.npy` file of NumPy to a device. The elements are read into page-locked memory,
    /// from which the device copies them.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::{Ix2, array};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let path = std::env::temp_dir().join("x.npy"); // or by numpy.save("x.npy", x)
    /// Array::from_host(&device, &array![[1.0_f32, 2.0], [3.0, 4.0]])?.write_npy(&path)?;
    /// let x: Array<f32, Ix2> = Array::read_npy(&device, &path)?;
    /// assert_eq!(x.sum().item()?, 10.0);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is malformed, its element type or its number of axes differs,
    /// there is not enough memory, or the device is lost.
    #[track_caller]
    pub fn read_npy(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        let (path, line) = (path.as_ref(), Location::caller());
        let opened = open(path).map_err(|problem| TensorFileError::new(path, "", problem));
        let (file, is_fortran) = opened?;
        let array: Self = TensorReader::new(&file, device, line).array("")?;
        Ok(if is_fortran {
            array.reversed_axes()
        } else {
            array
        })
    }

    /// Writes the elements to a `.npy` file of NumPy, which is replaced when all is written.
    ///
    /// # Errors
    ///
    /// If the elements are `bf16`, which NumPy does not have, the file cannot be written, or by the
    /// errors of [`to_host`](Self::to_host).
    #[track_caller]
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let Some((_, descr)) = TYPES.iter().find(|(dtype, _)| *dtype == T::DTYPE) else {
            let (expected, found) = ("NumPy", T::DTYPE.name().to_owned());
            let problem = TensorFileProblem::ElementType { expected, found };
            return Err(TensorFileError::new(path, "", problem).into());
        };
        let lengths: String = self
            .shape()
            .iter()
            .map(|length| format!("{length}, "))
            .collect();
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths}), }}");
        // The elements are aligned to 64 bytes.
        let length = (10 + header.len() + 1).next_multiple_of(64) - 11;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((length as u16 + 1).to_le_bytes());
        bytes.extend(format!("{header:<length$}\n").into_bytes());
        let mut writer = TensorWriter::new(path);
        Self::write(self, &mut writer, "")?;
        writer.write(self.device(), &bytes, Location::caller())
    }
}

/// Opens a file and reads its header. Returns whether the first axis is the innermost.
fn open(path: &Path) -> Result<(TensorFile, bool), TensorFileProblem> {
    let unreadable = |error: io::Error| TensorFileProblem::Io(Arc::new(error));
    let malformed = |detail: &str| TensorFileProblem::Malformed(detail.to_owned());
    let mut file = File::open(path).map_err(unreadable)?;
    let file_length = file.metadata().map_err(unreadable)?.len();
    let mut start = [0; 12];
    file.read_exact(&mut start[..10])
        .map_err(|_| malformed("it has no header"))?;
    let [major, _, low, high] = [start[6], start[7], start[8], start[9]];
    let length = match (&start[..6] == MAGIC, major) {
        (true, 1) => u32::from(u16::from_le_bytes([low, high])),
        (true, 2 | 3) => {
            file.read_exact(&mut start[10..])
                .map_err(|_| malformed("it has no header"))?;
            u32::from_le_bytes([low, high, start[10], start[11]])
        }
        _ => return Err(malformed("it does not begin as a file of NumPy")),
    };
    let mut header = Vec::new();
    (&mut file)
        .take(length.into())
        .read_to_end(&mut header)
        .map_err(unreadable)?;
    let header = String::from_utf8_lossy(&header);
    let (descr, is_fortran, shape) =
        parsed(&header).ok_or_else(|| malformed(&format!("its header is {header:?}")))?;
    let start = file.stream_position().map_err(unreadable)?;
    let dtype = TYPES.iter().find(|(_, name)| *name == descr);
    let elements = shape
        .iter()
        .try_fold(1_usize, |all, &length| all.checked_mul(length));
    let bytes = elements.and_then(|all| all.checked_mul(dtype.map_or(0, |(ty, _)| ty.bytes())));
    if bytes.is_none_or(|bytes| bytes as u64 > file_length.saturating_sub(start)) {
        return Err(malformed(&format!("its shape {shape:?} is beyond its end")));
    }
    let dtype = dtype.map(|&(dtype, _)| dtype);
    let dtype = dtype.ok_or_else(|| descr.to_owned());
    let shape = if is_fortran {
        shape.into_iter().rev().collect()
    } else {
        shape
    };
    let file = TensorFile {
        path: path.to_owned(),
        file: Mutex::new(file),
        mapped: None,
        names: vec![String::new()],
        entries: vec![Entry {
            dtype,
            shape,
            start,
        }],
    };
    Ok((file, is_fortran))
}

/// Parses a header: the element type, whether the first axis is the innermost, and the shape.
fn parsed(header: &str) -> Option<(&str, bool, Vec<usize>)> {
    let field = |name: &str| {
        let (_, rest) = header.split_once(&format!("'{name}':"))?;
        Some(rest.trim_start())
    };
    let (descr, _) = field("descr")?.strip_prefix('\'')?.split_once('\'')?;
    let is_fortran = field("fortran_order")?;
    let is_known = is_fortran.starts_with("True") || is_fortran.starts_with("False");
    let (shape, _) = field("shape")?.strip_prefix('(')?.split_once(')')?;
    let lengths = shape
        .split(',')
        .map(str::trim)
        .filter(|length| !length.is_empty());
    let shape: Option<Vec<usize>> = lengths.map(|length| length.parse().ok()).collect();
    is_known.then_some((descr, is_fortran.starts_with("True"), shape?))
}
