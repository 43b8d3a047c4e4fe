//! W6: models as structs of arrays, with weights in files.

#![allow(unsafe_code, reason = "maps a file")]

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process,
};

use half::{bf16, f16};
use millstream_region::{OnDevice, Result, SafeTensors, TensorFileProblem};
use ndarray::{Array0, ArrayD};
use safetensors::tensor::{Dtype, TensorView, serialize};

use crate::scenarios::{crossing::scenario, prelude::*};

#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Layer {
    weight: Array2<f32>,
    bias: Option<Array1<f16>>,
}

/// A field with a name of the format, and two of one name.
#[derive(Clone, OnDevice)]
struct Named {
    #[on_device(name = "__metadata__")]
    own: Option<Array1<u8>>,
    #[on_device(name = "a")]
    one: Option<Array1<u8>>,
    #[on_device(name = "a")]
    two: Option<Array1<u8>>,
}

#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Model {
    #[on_device(name = "encoder.layer")]
    layers: Vec<Layer>,
    #[on_device(name = "")]
    head: (Layer, [Vec<u8>; 2]),
    scale: f32,
    steps: usize,
    #[on_device(skip)]
    name: String,
}

fn model() -> Model {
    let layer = |scale: f32, bias: bool| Layer {
        weight: Array2::from_shape_fn((2, 3), |(row, column)| (row * 3 + column) as f32 * scale),
        bias: bias.then(|| array![f16::from_f32(scale), f16::NAN]),
    };
    Model {
        layers: (0..11)
            .map(|number| layer(number as f32, number % 2 == 0))
            .collect(),
        head: (layer(-1.0, false), [vec![1, 2], vec![]]),
        scale: 0.5,
        steps: 3,
        name: String::new(),
    }
}

#[region]
fn keep(model: &Model) -> ModelOnDevice {
    model.clone()
}

#[region]
fn bring(model: &Model) -> Model {
    model.clone()
}

/// Returns the path of a file of this test.
fn path(name: &str) -> PathBuf {
    let thread = format!("{:?}", thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    env::temp_dir().join(format!("{name}-{}-{number}.safetensors", process::id()))
}

#[run_by(scenario, |harness, calls|)]
fn w06_a_model_is_read_and_written_by_the_names_of_its_fields() -> Result<()> {
    let (host, path) = (model(), path("model"));
    let kept = keep(&harness.device, &host)?.wait()?;
    calls.forget();
    SafeTensors::save(&path, &harness.device, &kept)?;
    assert_copies(calls, 0, 19);
    let file = SafeTensors::open(&path)?;
    let names = file.names();
    assert_eq!(names.len(), 22, "{names:?}");
    assert_eq!(names[..3], ["0.weight", "1.0", "1.1"]);
    assert_eq!(names[19..], ["encoder.layer.9.weight", "scale", "steps"]);
    calls.forget();
    let loaded = file.load::<Model>(&harness.device, "")?;
    // One copy for each array with elements: nothing is copied twice.
    assert_copies(calls, 19, 0);
    let mut brought = bring(&harness.device, &loaded)?.wait()?;
    for (layer, expected) in brought.layers.iter_mut().zip(&host.layers) {
        // NaN differs from itself.
        let bits = |x: &Option<Array1<f16>>| x.as_ref().map(|x| x.mapv(f16::to_bits));
        assert_eq!(bits(&layer.bias), bits(&expected.bias));
        layer.bias = expected.bias.clone();
    }
    assert_eq!(format!("{brought:?}"), format!("{host:?}"));
    // SAFETY: no other program knows the file.
    let mapped = unsafe { SafeTensors::map(&path) }?;
    calls.forget();
    let again = mapped.load::<Model>(&harness.device, "")?;
    assert_copies(calls, 19, 0);
    assert_eq!(again.head.0.weight.to_host()?, host.head.0.weight);
    let one = file.load::<Layer>(&harness.device, "encoder.layer.10")?;
    assert_eq!(one.weight.to_host()?, host.layers[10].weight);

    // The file can be read by the format's own crate, which is aligned and sorted.
    let bytes = fs::read(&path).unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("steps").unwrap().data(), 3_u64.to_le_bytes());
    let mut other: HashMap<String, TensorView<'_>> = theirs.tensors().into_iter().collect();
    other.remove("encoder.layer.4.weight");
    fs::write(&path, serialize(other, None).unwrap()).unwrap();
    assert_fails(
        SafeTensors::open(&path)?.load::<Model>(&harness.device, ""),
        "tensor `encoder.layer.4.weight`: there is no such tensor",
    );
    fs::remove_file(&path).unwrap();
    Ok(())
}

/// A file with one tensor.
fn written(name: &str, dtype: Dtype, shape: &[usize], data: &[u8]) -> PathBuf {
    let view = TensorView::new(dtype, shape.to_vec(), data).unwrap();
    let path = path(name);
    fs::write(&path, serialize([("x", view)], None).unwrap()).unwrap();
    path
}

#[run_by(scenario, |harness, _calls|)]
fn w06_each_element_type_is_read_as_the_format_defines_it() -> Result<()> {
    let device = &harness.device;
    macro_rules! check {
        ($($dtype:ident $type:ty, $bytes:expr, $value:expr;)*) => {$(
            let path = written("types", Dtype::$dtype, &[2], &[$bytes, $bytes].concat());
            let x: Array<$type, Ix1> = SafeTensors::open(&path)?.array(device, "x")?;
            assert_eq!(x.to_host()?, array![$value, $value]);
            SafeTensors::save(&path, device, &(x, 1_u8))?;
            let saved = SafeTensors::open(&path)?;
            assert_eq!(saved.names(), ["0", "1"]);
            let again: Array<$type, Ix1> = saved.array(device, "0")?;
            assert_eq!(again.to_host()?, array![$value, $value]);
        )*};
    }
    check! {
        F16 f16, [0x00, 0x3e], f16::from_f32(1.5);
        BF16 bf16, [0xc0, 0x3f], bf16::from_f32(1.5);
        F32 f32, 1.5_f32.to_le_bytes(), 1.5_f32;
        F64 f64, (-0.1_f64).to_le_bytes(), -0.1_f64;
        I8 i8, [0xfe], -2_i8;
        I16 i16, (-2_i16).to_le_bytes(), -2_i16;
        I32 i32, (-2_i32).to_le_bytes(), -2_i32;
        I64 i64, i64::MIN.to_le_bytes(), i64::MIN;
        U8 u8, [0xfe], 254_u8;
        U16 u16, [1, 2], 0x201_u16;
        U32 u32, [1, 2, 3, 4], 0x4030201_u32;
        U64 u64, u64::MAX.to_le_bytes(), u64::MAX;
        BOOL bool, [1], true;
    }
    let path = written("types", Dtype::F32, &[3, 0, 2], &[]);
    let empty = SafeTensors::open(&path)?.array::<f32, ndarray::Ix3>(device, "x")?;
    assert_eq!(empty.to_host()?.shape(), [3, 0, 2]);
    let path = written("types", Dtype::F32, &[], &2.0_f32.to_le_bytes());
    let file = SafeTensors::open(&path)?;
    assert_eq!(
        file.array::<f32, ndarray::Ix0>(device, "x")?.to_host()?,
        Array0::from_elem((), 2.0)
    );
    assert_eq!(
        file.array::<f32, ndarray::IxDyn>(device, "x")?.to_host()?,
        ArrayD::from_elem(vec![], 2.0)
    );
    fs::remove_file(&path).unwrap();
    Ok(())
}

#[test]
fn w06_a_tensor_of_several_chunks_is_read() {
    once(|harness| {
        let bytes: Vec<u8> = (0..(33 << 20) + 5)
            .map(|byte: u32| (byte % 251) as u8)
            .collect();
        let path = written("large", Dtype::U8, &[bytes.len()], &bytes);
        let file = SafeTensors::open(&path).unwrap();
        let x = file.array::<u8, Ix1>(&harness.device, "x").unwrap();
        assert_eq!(x.to_host().unwrap().as_slice().unwrap(), bytes);
        fs::remove_file(&path).unwrap();
        Ok(())
    });
}

/// Asserts that a result is the error of a malformed file.
#[track_caller]
fn assert_malformed<T>(result: Result<T>, path: &Path) {
    let Err(Error::TensorFile(error)) = result else {
        panic!("another result")
    };
    let is_malformed = matches!(error.problem(), TensorFileProblem::Malformed(_));
    assert!(is_malformed && error.path() == path, "{error}");
}

/// Returns the bytes of a file with this header, and this number of bytes behind it.
fn raw(header: &str, elements: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![7; elements]);
    bytes
}

#[run_by(scenario, |harness, _calls|)]
fn w06_malformed_files_are_typed_errors() -> Result<()> {
    let (device, path) = (&harness.device, path("malformed"));
    let tensor = |dtype: &str, shape: &str, start: usize, end: usize| {
        format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}}}"#)
    };
    let good = tensor("F32", "[2]", 0, 8);
    let cut = raw(&good, 8)[..20].to_vec();
    let huge = [u64::MAX.to_le_bytes().to_vec(), vec![b'{'; 30]].concat();
    for bytes in [
        vec![],
        vec![1, 2, 3],
        cut,
        huge,
        raw("", 0),
        raw("{\"x\":", 0),
        raw("\u{0}", 0),
        raw(&good, 7),
        raw(&good, 9),
        raw(&tensor("F32", "[2]", 0, 7), 7),
        raw(&tensor("F32", "[2]", 4, 12), 12),
        raw(&tensor("F32", "[2]", 8, 0), 8),
        raw(&tensor("F32", "[3]", 0, 8), 8),
        raw(&tensor("F32", "[18446744073709551615, 2]", 0, 8), 8),
        raw(&tensor("F32", "[-2]", 0, 8), 8),
        raw(&tensor("F33", "[2]", 0, 8), 8),
    ] {
        fs::write(&path, &bytes).unwrap();
        assert_malformed(SafeTensors::open(&path), &path);
    }

    // The elements begin at an odd place.
    fs::write(&path, raw(&format!("{good} "), 8)).unwrap();
    let file = SafeTensors::open(&path)?;
    let seven = f32::from_le_bytes([7; 4]);
    assert_eq!(
        file.array::<f32, Ix1>(device, "x")?.to_host()?,
        array![seven, seven]
    );
    assert_fails(
        file.array::<f32, Ix1>(device, "y"),
        "`y`: there is no such tensor",
    );
    assert_fails(
        file.array::<f64, Ix1>(device, "x"),
        "`x`: expected elements of type f64, found f32",
    );
    assert_fails(
        file.array::<f32, Ix2>(device, "x"),
        "`x`: expected 2 axes, found shape [2]",
    );

    // The file shrinks while it is open.
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(68)
        .unwrap();
    assert_fails(
        file.array::<f32, Ix1>(device, "x"),
        "failed to fill whole buffer",
    );

    let axes = raw(&tensor("F32", "[1, 1, 1, 1, 1, 1, 2]", 0, 8), 8);
    fs::write(&path, axes).unwrap();
    assert_fails(
        SafeTensors::open(&path)?.array::<f32, ndarray::IxDyn>(device, "x"),
        "more than 6 axes",
    );
    for (dtype, message) in [("BOOL", "neither 0 nor 1"), ("F8_E4M3", "found F8_E4M3")] {
        fs::write(&path, raw(&tensor(dtype, "[2]", 0, 2), 2)).unwrap();
        assert_fails(
            SafeTensors::open(&path)?.array::<bool, Ix1>(device, "x"),
            message,
        );
    }
    fs::remove_file(&path).unwrap();
    assert_fails(SafeTensors::open(&path), "malformed-");
    Ok(())
}

#[derive(OnDevice)]
struct Parts {
    parts: Vec<Option<Array1<u8>>>,
}

#[run_by(scenario, |harness, _calls|)]
fn w06_lists_keep_their_number_of_items_in_files() -> Result<()> {
    let (device, path) = (&harness.device, path("lists"));
    let x = Array::from_host(device, &array![1_u8])?;
    let saved = |parts| SafeTensors::save(&path, device, &PartsOnDevice { parts });
    let far = |number: usize| {
        (0..=number)
            .map(|item| (item == number).then(|| x.clone()))
            .collect()
    };
    for parts in [vec![], vec![None], vec![Some(x.clone()), None], far(16)] {
        assert_fails(saved(parts), "a file would lose this");
    }
    let inner: (Option<Vec<Array<u8, Ix1>>>,) = (Some(vec![]),);
    assert_fails(SafeTensors::save(&path, device, &inner), "would lose this");
    assert_fails(
        SafeTensors::save(&path, device, &("x", 'c')),
        "`0`: a `&str` is no tensor",
    );
    let x = Some(x.clone());
    let named = [(x.clone(), None, None), (None, x.clone(), x)];
    for ((own, one, two), name) in named.into_iter().zip(["`__metadata__`", "`a`"]) {
        let saved = SafeTensors::save(&path, device, &NamedOnDevice { own, one, two });
        assert_fails(saved, &format!("{name}: a file has this name once"));
    }
    assert!(!path.exists());
    for number in [0, 1, 15] {
        saved(far(number))?;
        let parts = SafeTensors::open(&path)?.load::<Parts>(device, "")?.parts;
        let is_there: Vec<bool> = parts.iter().map(Option::is_some).collect();
        assert_eq!(
            is_there,
            (0..=number).map(|item| item == number).collect::<Vec<_>>()
        );
    }
    let with_item = |number: &str| {
        let tensor = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
        fs::write(&path, raw(&format!(r#"{{"parts.{number}":{tensor}}}"#), 1)).unwrap();
        SafeTensors::open(&path)?.load::<Parts>(device, "")
    };
    // One name does not make a list of this length.
    for number in ["16", "4294967295", "18446744073709551615"] {
        assert_malformed(with_item(number), &path);
    }
    // These are no numbers of items.
    for number in ["+2", "02"] {
        assert_fails(with_item(number), "`parts.0`: there is no such tensor");
    }
    fs::remove_file(&path).unwrap();
    // A file that has more bytes than its length.
    if cfg!(unix) {
        assert_malformed(SafeTensors::open("/dev/zero"), Path::new("/dev/zero"));
    }
    Ok(())
}

/// Returns the bytes of a file of NumPy with this header, and the bytes 0, 1, 2, … behind it.
fn numpy(version: u8, header: &str, elements: u8) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let length = header.len() as u32;
    bytes.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    bytes.extend(header.as_bytes());
    bytes.extend(0..elements);
    bytes
}

#[run_by(scenario, |harness, calls|)]
fn w06_arrays_of_numpy_are_read_and_written() -> Result<()> {
    let (device, path) = (&harness.device, path("array"));
    let header = |descr: &str, fortran: &str, shape: &str| {
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}   \n")
    };
    let read = |bytes: Vec<u8>| -> Result<Array<u8, Ix2>> {
        fs::write(&path, bytes).unwrap();
        Array::read_npy(device, &path)
    };
    let rows = array![[0, 1, 2], [3, 4, 5]];
    calls.forget();
    let x = read(numpy(1, &header("|u1", "False", "(2, 3)"), 6))?;
    assert_copies(calls, 1, 0);
    assert_eq!(x.to_host()?, rows);
    for version in [2, 3] {
        let transposed = read(numpy(version, &header("|u1", "True", "(3, 2)"), 6))?;
        assert_eq!(transposed.to_host()?, rows.t());
    }
    (x.t() * 2).write_npy(&path)?;
    let written = fs::read(&path).unwrap();
    let expected = numpy(
        1,
        &format!("{:<117}\n", header("|u1", "False", "(3, 2, )").trim()),
        0,
    );
    assert_eq!(written, [expected, vec![0, 6, 2, 8, 4, 10]].concat());
    assert_eq!(
        Array::<u8, Ix2>::read_npy(device, &path)?.to_host()?,
        rows.t().mapv(|x| x * 2)
    );
    Array::<_, ndarray::Ix0>::from_host(device, &Array0::from_elem((), 7_i64))?.write_npy(&path)?;
    assert_eq!(
        Array::<i64, ndarray::Ix0>::read_npy(device, &path)?.item()?,
        7
    );

    assert_fails(
        Array::<f32, Ix1>::read_npy(device, &path),
        "expected elements of type f32, found i64",
    );
    assert_fails(
        Array::<i64, Ix1>::read_npy(device, &path),
        "expected 1 axes, found shape []",
    );
    let halves: Array<bf16, Ix1> = Array::from_host(device, &array![bf16::ONE])?;
    assert_fails(
        halves.write_npy(&path),
        "expected elements of type NumPy, found bf16",
    );
    for bytes in [
        vec![],
        b"\x93NUMPY\x01\x00".to_vec(),
        b"\x92NUMPY\x01\x00\x00\x00".to_vec(),
        numpy(4, &header("|u1", "False", "(2, 3)"), 6),
        numpy(1, &header("|u1", "False", "(2, 3)"), 5),
        numpy(1, &header("|u1", "False", "(2, -3)"), 6),
        numpy(1, &header("|u1", "None", "(2, 3)"), 6),
        numpy(1, "{'shape': (2, 3), 'descr': '|u1'}", 6),
        numpy(1, &header("|u1", "False", "(18446744073709551615, 3)"), 6),
        numpy(1, "", 0),
        [numpy(2, "", 0)[..8].to_vec(), vec![255; 4]].concat(),
    ] {
        assert_malformed(read(bytes), &path);
    }
    assert_fails(
        read(numpy(1, &header("<c8", "False", "(1, 1)"), 8)),
        "found <c8",
    );
    fs::remove_file(&path).unwrap();
    Ok(())
}
