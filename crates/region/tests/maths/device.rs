//! Evaluation of library functions on the device that `MILLSTREAM_DEVICE` names, or on the
//! simulated one.

#![allow(unsafe_code, reason = "launches kernels that are written here")]

use std::{fmt::Write, panic::Location};

use bytemuck::Pod;
use millstream::{
    Device, LaunchConfig, Select, Stream,
    kernel::{Argument, launch_at, load_generated},
};
use millstream_region::maths;

pub(crate) fn one<A: Pod, R: Pod>(function: &'static str, a: &[A]) -> Vec<R> {
    run(function, &[Column::of(a)])
}

/// Evaluates `function` for each pair of elements.
pub(crate) fn two<A: Pod, B: Pod, R: Pod>(function: &'static str, a: &[A], b: &[B]) -> Vec<R> {
    assert_eq!(a.len(), b.len());
    run(function, &[Column::of(a), Column::of(b)])
}

struct Column<'a> {
    bytes: &'a [u8],
    bits: usize,
}

impl<'a> Column<'a> {
    fn of<T: Pod>(elements: &'a [T]) -> Self {
        Self {
            bytes: bytemuck::cast_slice(elements),
            bits: 8 * size_of::<T>(),
        }
    }
}

fn run<R: Pod>(function: &'static str, columns: &[Column<'_>]) -> Vec<R> {
    let first = columns.first().expect("a function has operands");
    let count = first.bytes.len() * 8 / first.bits;
    let stream = stream();
    let text = module(function, columns, 8 * size_of::<R>());
    let kernel = load_generated(
        &stream.device(),
        &text,
        "map",
        || function,
        columns.len() + 2,
    )
    .unwrap();
    let mut array = stream.upload(&vec![R::zeroed(); count]).unwrap();
    let arrays: Vec<_> = columns
        .iter()
        .map(|column| stream.upload(column.bytes).unwrap())
        .collect();
    let operands: Vec<_> = arrays.iter().collect();
    let length = count as u64;
    let mut result = &mut array;
    let mut arguments = vec![Argument::write(&mut result), Argument::scalar(&length)];
    arguments.extend(operands.iter().map(Argument::read));
    // SAFETY: the kernel takes a result, a length and this number of operands, and accesses
    // the `length` elements that each of them has.
    unsafe {
        launch_at(
            &kernel,
            &stream,
            LaunchConfig::linear(count),
            &arguments,
            Location::caller(),
        )
    }
    .unwrap();
    stream.download(&array).unwrap().wait().unwrap()
}

fn stream() -> Stream {
    let device = Device::open(Select::Auto).unwrap();
    device.thread_stream().unwrap()
}

/// Returns the text of a module with the entry `result[i] = function(operand[i]…)`.
fn module(function: &str, columns: &[Column<'_>], bits: usize) -> String {
    let mut text = String::from(".version 8.0\n.target sm_75\n.address_size 64\n");
    text += &maths::sources([function]);
    text += ".visible .entry map(.param .u64 result, .param .u64 length";
    for number in 0..columns.len() {
        write!(text, ", .param .u64 operand{number}").unwrap();
    }
    text += ") {\n.reg .pred %p;\n.reg .b32 %r<3>;\n.reg .b64 %rd<4>;\n";
    for (number, column) in columns.iter().enumerate() {
        writeln!(text, ".reg .b{} %x{number};", column.bits).unwrap();
    }
    writeln!(text, ".reg .b{bits} %y;").unwrap();
    text += "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmul.wide.u32 %rd0, %r0, %r1;\n\
             mov.u32 %r2, %tid.x;\ncvt.u64.u32 %rd1, %r2;\nadd.u64 %rd0, %rd0, %rd1;\n\
             ld.param.u64 %rd1, [length];\n\
             setp.ge.u64 %p, %rd0, %rd1;\n@%p bra done;\n";
    let mut registers = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let bytes = column.bits / 8;
        writeln!(
            text,
            "ld.param.u64 %rd1, [operand{number}];\nmad.lo.u64 %rd1, %rd0, {bytes}, %rd1;\n\
             ld.global.b{} %x{number}, [%rd1];",
            column.bits
        )
        .unwrap();
        registers.push(format!("%x{number}"));
    }
    let registers: Vec<&str> = registers.iter().map(String::as_str).collect();
    maths::call(&mut text, function, "%y", &registers);
    let bytes = bits / 8;
    writeln!(
        text,
        "ld.param.u64 %rd1, [result];\nmad.lo.u64 %rd1, %rd0, {bytes}, %rd1;\n\
         st.global.b{bits} [%rd1], %y;\ndone:\nret;\n}}"
    )
    .unwrap();
    text
}
