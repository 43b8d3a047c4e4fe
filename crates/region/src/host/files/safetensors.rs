//! Files in the format of safetensors, by its own crate.

#![allow(unsafe_code, reason = "maps files")]

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read},
    panic::Location,
    path::Path,
    sync::Arc,
};

use memmap2::Mmap;
use millstream::Device;
use ndarray::Dimension;
use parking_lot::Mutex;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::{
    Array,
    element::{DType, Element},
    error::{Error, Result, TensorFileError, TensorFileProblem},
    host::{
        OnDevice, Parameter,
        files::{Entry, TensorFile, TensorReader, TensorWriter},
    },
};

/// The greatest length of a header, which is that of the format's own crate.
const HEADER_MAX: u64 = 100_000_000;

/// An open file of the format [safetensors](https://github.com/huggingface/safetensors): named
/// tensors, of which any is copied to a device when it is asked for.
///
/// [`open`](Self::open) reads elements into page-locked memory, in chunks of 32 MiB, and
/// [`map`](Self::map) has the threads of uploads copy them there; from there the device copies
/// them. Either is one copy on the host. If a file that `open` has opened shrinks, reading it is an
/// error.
///
/// ```
/// use millstream_region::{Array, OnDevice, SafeTensors, region};
/// use ndarray::{Array1, Array2, Ix1, array};
///
/// #[derive(OnDevice)]
/// struct Layer {
///     weight: Array2<f32>,
///     bias: Option<Array1<f32>>,
/// }
///
/// #[derive(OnDevice)]
/// struct Model {
///     #[on_device(name = "encoder.layer")]
///     layers: Vec<Layer>,
/// }
///
/// #[region]
/// fn keep(model: Model) -> ModelOnDevice {
///     model
/// }
///
/// let device = millstream::Device::simulated()?;
/// let layer = |bias| Layer { weight: array![[1.0, 2.0], [3.0, 4.0]], bias };
/// let model = Model { layers: vec![layer(None), layer(Some(array![0.5, 0.5]))] };
/// let model = keep(&device, model)?.wait()?;
///
/// let path = std::env::temp_dir().join("model.safetensors");
/// SafeTensors::save(&path, &device, &model)?;
/// let file = SafeTensors::open(&path)?;
/// let names = ["encoder.layer.0.weight", "encoder.layer.1.bias", "encoder.layer.1.weight"];
/// assert_eq!(file.names(), names);
/// let model: ModelOnDevice = file.load::<Model>(&device, "")?;
/// assert!(model.layers[0].bias.is_none());
/// let bias: Array<f32, Ix1> = file.array(&device, "encoder.layer.1.bias")?;
/// assert_eq!(bias.to_host()?, array![0.5, 0.5]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct SafeTensors {
    file: TensorFile,
}

impl SafeTensors {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, its header is malformed, or the places of its tensors are not
    /// within the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::opened(path.as_ref(), |_| Ok(None))
    }

    /// Opens a file, maps it into memory, and reads its header. Where reading is slower than
    /// several threads that copy, this is faster than [`open`](Self::open).
    ///
    /// # Safety
    ///
    /// While it is open, no process changes or truncates the file.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        Self::opened(path.as_ref(), |file| {
            // SAFETY: the caller ensures that the file does not change.
            Ok(Some(unsafe { Mmap::map(file) }?))
        })
    }

    fn opened(path: &Path, map: impl FnOnce(&File) -> io::Result<Option<Mmap>>) -> Result<Self> {
        let failed = |problem| -> Error { TensorFileError::new(path, "", problem).into() };
        let unreadable = |error: io::Error| failed(TensorFileProblem::Io(Arc::new(error)));
        let malformed = |detail: String| failed(TensorFileProblem::Malformed(detail));
        let mut file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mapped = map(&file).map_err(unreadable)?;
        let mut header_length = [0; 8];
        let too_short = |_| malformed(format!("its {length} bytes have no header"));
        file.read_exact(&mut header_length).map_err(too_short)?;
        let header_length = u64::from_le_bytes(header_length);
        if header_length > HEADER_MAX.min(length.saturating_sub(8)) {
            return Err(malformed(format!(
                "its header has {header_length} bytes, and the file {length}"
            )));
        }
        let mut header = vec![0; header_length as usize];
        file.read_exact(&mut header).map_err(unreadable)?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| malformed(error.to_string()))?;
        let start = 8 + header_length;
        let elements = metadata.data_len();
        if start.checked_add(elements as u64) != Some(length) {
            return Err(malformed(format!(
                "its tensors have {elements} bytes behind a header of {start}, and the file \
                 {length}"
            )));
        }
        let tensors: BTreeMap<String, &TensorInfo> = metadata.tensors().into_iter().collect();
        let entries = tensors.values().map(|info| Entry {
            dtype: TYPES
                .iter()
                .find_map(|(dtype, other)| (*other == info.dtype).then_some(*dtype))
                .ok_or_else(|| info.dtype.to_string()),
            shape: info.shape.clone(),
            start: start + info.data_offsets.0 as u64,
        });
        let file = TensorFile {
            path: path.to_owned(),
            file: Mutex::new(file),
            mapped: mapped.map(|bytes| Box::new(bytes) as _),
            entries: entries.collect(),
            names: tensors.into_keys().collect(),
        };
        Ok(Self { file })
    }

    /// Returns the names of the tensors, sorted.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.file.names
    }

    /// Returns the lengths of the axes of a tensor, or `None` if there is no such tensor.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.file.entry(name).map(|entry| &entry.shape[..])
    }

    /// Copies a tensor to a device.
    ///
    /// # Errors
    ///
    /// If there is no such tensor, its element type or its number of axes differs, the file cannot
    /// be read, there is not enough memory, or the device is lost.
    #[track_caller]
    pub fn array<T: Element, D: Dimension>(
        &self,
        device: &Device,
        name: &str,
    ) -> Result<Array<T, D>> {
        TensorReader::new(&self.file, device, Location::caller()).array(name)
    }

    /// Copies all tensors of a struct to a device: an array for each field, whose name is that of
    /// the struct, a dot, and that of the field; `name` is that of the struct, and may be empty.
    /// [`OnDevice`](trait@OnDevice) says how fields are named.
    ///
    /// # Errors
    ///
    /// As [`array`](Self::array), for the first field whose tensor is wrong.
    #[track_caller]
    pub fn load<M: OnDevice>(&self, device: &Device, name: &str) -> Result<<M as Parameter>::Body> {
        M::read(
            &TensorReader::new(&self.file, device, Location::caller()),
            name,
        )
    }

    /// Writes the tensors of a struct on a device, under the names by which
    /// [`load`](Self::load) reads them. The file is replaced when all is written.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, a field is no tensor, an operation that an array depends on
    /// has failed, there is not enough memory, or the device is lost.
    #[track_caller]
    pub fn save<M: OnDevice<Body = M>>(
        path: impl AsRef<Path>,
        device: &Device,
        model: &M,
    ) -> Result<()> {
        let path = path.as_ref();
        let mut writer = TensorWriter::new(path);
        M::write(model, &mut writer, "")?;
        // Aligned, because wide elements come first; otherwise sorted.
        writer.tensors.sort_by(|(left, a), (right, b)| {
            (b.dtype().bytes(), left).cmp(&(a.dtype().bytes(), right))
        });
        let names = writer.tensors.iter().map(|(name, _)| name.as_str());
        let mut names: Vec<&str> = names.chain(["__metadata__"]).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|names| names[0] == names[1]) {
            return Err(TensorFileError::new(path, twice[0], TensorFileProblem::Twice).into());
        }
        let mut start = 0;
        let infos = writer.tensors.iter().map(|(name, tensor)| {
            let (dtype, shape) = (named(tensor.dtype()), tensor.shape().to_vec());
            let data_offsets = (start, start + tensor.bytes());
            start = data_offsets.1;
            (
                name.clone(),
                TensorInfo {
                    dtype,
                    shape,
                    data_offsets,
                },
            )
        });
        let malformed = |detail: String| -> Error {
            TensorFileError::new(path, "", TensorFileProblem::Malformed(detail)).into()
        };
        let metadata = Metadata::new(None, infos.collect());
        let metadata = metadata.map_err(|error| malformed(error.to_string()))?;
        let json =
            serde_json::to_string(&metadata).map_err(|error| malformed(error.to_string()))?;
        let length = json.len().next_multiple_of(8);
        let mut header = (length as u64).to_le_bytes().to_vec();
        header.extend(format!("{json:<length$}").into_bytes());
        writer.write(device, &header, Location::caller())
    }
}

impl fmt::Debug for SafeTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SafeTensors({} tensors in {})",
            self.file.names.len(),
            self.file.path.display()
        )
    }
}

const TYPES: [(DType, Dtype); 13] = [
    (DType::F16, Dtype::F16),
    (DType::Bf16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::Bool, Dtype::BOOL),
];

/// Returns the format's name of an element type.
fn named(dtype: DType) -> Dtype {
    let named = TYPES.iter().find(|(other, _)| *other == dtype);
    named.expect("each element type has a name").1
}
