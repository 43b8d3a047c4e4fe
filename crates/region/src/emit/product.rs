//! Built-in kernels for matrix products with an epilogue, which takes the place of each store of an
//! element in the text of a checked-in module: it gets the element from the register that was
//! stored, and the linear index from the address. If `k` is split, the kernel that sums the partial
//! products has the epilogue.
//!
//! The kernels for tensor cores store four neighbours at once, as two words, and have a single such
//! store.
//!
//! An element of `f16` or `bf16` is rounded before the epilogue, as it is when it is stored. The
//! results are therefore those of two kernels, bit by bit.

use std::sync::Arc;

use millstream::kernel::{Param, ParamKind};
use smallvec::{SmallVec, smallvec};

use crate::{
    element::{DType, Scalar},
    emit::{
        body::{
            Block, HEADER, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line,
            memory::Registers, value,
        },
        lower::{Lowering, Position},
        map::elements::group_positions,
        passes::{GeneratedPasses, Temporary},
    },
    expr::{NodeRef, Op},
    plan::{FusedKernel, IndexAnalysis, are_flat},
    product::{BLOCKS_MAX, BuiltinKernel, LaunchPlan, THREADS, part_bytes, source},
    schedule::{choose::last_length, product_layout},
};

/// The registers of an element of the product, or of the two words of four, and of the address to
/// which they are stored.
const ELEMENT: &str = "%element";
const WORDS: [&str; 2] = ["%word0", "%word1"];
const ADDRESS: &str = "%address";

pub(crate) fn product(kernel: &FusedKernel, plan: &LaunchPlan) -> GeneratedPasses {
    let node = &kernel.root;
    let Some(Op::MatrixProduct(left, right, _)) = kernel.op(node) else {
        unreachable!("the root is a product");
    };
    let (layout, [a, b]) = product_layout(kernel, left, right);
    let input = |node| KernelParameter::Input(NodeRef::clone(node));
    let parameters = vec![
        input(a),
        input(b),
        KernelParameter::Output(0),
        KernelParameter::ProductShape(Arc::new(plan.shape(&layout))),
    ];
    let multiplication = BuiltinText::of(node.dtype, plan.kernel);
    let threads = |blocks: usize| blocks.min(BLOCKS_MAX) * THREADS;
    let Some(sum) = plan.sum(&layout) else {
        let kernel = multiplication.with_epilogue(kernel, parameters);
        return GeneratedPasses::one(kernel, threads(plan.blocks));
    };
    let mut of_sum = vec![KernelParameter::Temporary(0), KernelParameter::Output(0)];
    let scalars = sum.scalars.into_iter();
    of_sum.extend(scalars.map(|value| KernelParameter::Scalar(Scalar::U64(value))));
    let partial = Temporary {
        bytes: sum.parts * part_bytes(node.dtype),
        is_zeroed: false,
    };
    let summation = BuiltinText::of(node.dtype, BuiltinKernel::Sum).with_epilogue(kernel, of_sum);
    let first = (multiplication.alone(parameters), threads(plan.blocks));
    GeneratedPasses::chain(
        smallvec![partial],
        [first, (summation, threads(sum.blocks))],
    )
}

/// The text of a built-in kernel.
struct BuiltinText {
    dtype: DType,
    kernel: BuiltinKernel,
    name: &'static str,
    /// From the name on, up to the last brace.
    text: &'static str,
    /// The number of the parameter with the address of the product, and the size of all parameters.
    output: usize,
    parameter_bytes: usize,
    /// The size of the registers from which elements are stored.
    bits: usize,
}

struct ElementStore<'a> {
    base: &'a str,
    offset: &'a str,
    /// The register of an element, or the list of those of four.
    value: &'a str,
}

impl BuiltinText {
    fn of(dtype: DType, kernel: BuiltinKernel) -> Self {
        let (source, number) = source(dtype, kernel);
        let signature = &source.kernels[number];
        let (_, text) = source
            .ptx
            .split_once(&format!(".visible .entry {}(\n", signature.name))
            .expect("the module has the kernels of its signatures");
        let (text, _) = text.split_once("\n}\n").expect("a kernel ends");
        let params = signature.params.iter();
        let is_output = |param: &Param| matches!(param.kind, ParamKind::Slice { writable: true });
        let mut stores = text
            .lines()
            .filter_map(|line| ElementStore::of(dtype, kernel, line));
        let value = stores.next().expect("the kernel stores elements").value;
        Self {
            dtype,
            kernel,
            name: signature.name,
            text,
            output: params
                .clone()
                .position(is_output)
                .expect("the kernel has an output"),
            parameter_bytes: params.map(bytes_of).sum(),
            bits: match value {
                value if value.starts_with("%rs") => 16,
                value if value.starts_with("%rd") || value.starts_with("%fd") => 64,
                _ => 32,
            },
        }
    }

    fn alone(&self, parameters: Vec<KernelParameter>) -> Kernel {
        let header = self.header();
        let ptx = format!("{header}.visible .entry region(\n{}\n}}\n", self.text);
        Kernel {
            ptx: ptx.into(),
            parameters,
            table: Vec::new(),
            wide: true,
            block: THREADS,
            name: self.name.into(),
        }
    }

    fn with_epilogue(&self, kernel: &FusedKernel, mut parameters: Vec<KernelParameter>) -> Kernel {
        let IndexAnalysis { wide, .. } = IndexAnalysis::of(kernel);
        let block = self.epilogue(kernel, wide);
        let ptx = self.header() + &block.functions + &self.text_with(&block);
        parameters.extend(block.parameters);
        Kernel {
            ptx: ptx.into(),
            parameters,
            table: block.table,
            wide,
            block: THREADS,
            name: block.name.into(),
        }
    }

    fn header(&self) -> String {
        match self.kernel.is_tensor() {
            true => HEADER.replace("sm_75", "sm_80"),
            false => HEADER.into(),
        }
    }

    /// Generates the epilogue of the elements of a store.
    fn epilogue(&self, kernel: &FusedKernel, wide: bool) -> Block {
        let mut body = KernelBody::new(wide);
        body.name_part(self.name);
        let elements = self.elements(&mut body);
        let [output, distance] = body.regs(RegClass::B64);
        line!(body; "ld.param.u64 {output}, [{}_param_{}];", self.name, self.output);
        body.define_parameter(ParameterKey::Output(0), output);
        line!(body; "sub.s64 {distance}, {ADDRESS}, {output};");
        let shift = self.dtype.bytes().trailing_zeros();
        line!(body; "shr.u64 {distance}, {distance}, {shift};");
        let index = match wide {
            true => distance,
            false => value!(body, B32; "cvt.u32.u64 {distance}"),
        };
        let value = &kernel.output().value;
        let mut lowering = Lowering::new(&mut body, kernel, are_flat(&kernel.epilogue));
        let positions = positions(&mut lowering, value, index, elements.len());
        let lanes = positions.into_iter().zip(elements).enumerate();
        let result = |(lane, (position, element))| {
            lowering.given = Some((kernel.root.id, element));
            lowering.lower_in_turn(value, position, lane)
        };
        let results: Registers = lanes.map(result).collect();
        body.store_output((0, value.dtype), index, &results);
        body.finish_block(self.parameter_bytes)
    }

    /// Returns registers with the elements of a store, as the registers of their type hold them.
    fn elements(&self, body: &mut KernelBody) -> Registers {
        if self.kernel.is_tensor() {
            let halves = |word| {
                let [low, high] = body.regs(RegClass::B32);
                line!(body; "and.b32 {low}, {word}, 65535;");
                line!(body; "shr.u32 {high}, {word}, 16;");
                [low, high]
            };
            return WORDS.into_iter().flat_map(halves).collect();
        }
        let reg = body.reg(RegClass::of(self.dtype));
        match (self.dtype.is_half(), self.bits) {
            (true, 16) => line!(body; "cvt.u32.u16 {reg}, {ELEMENT};"),
            (true, _) => line!(body; "and.b32 {reg}, {ELEMENT}, 65535;"),
            (false, bits) => line!(body; "mov.b{bits} {reg}, {ELEMENT};"),
        }
        smallvec![body.narrowed(self.dtype, reg)]
    }

    /// Returns the text of the kernel with a block in the place of each store of an element.
    fn text_with(&self, block: &Block) -> String {
        let bits = self.bits;
        let mut text = String::from(".visible .entry region(\n");
        let mut push = |part: &str| text.push_str(part);
        for line in self.text.lines() {
            if let Some(ElementStore {
                base,
                offset,
                value,
            }) = ElementStore::of(self.dtype, self.kernel, line)
            {
                match value.trim_matches(['{', '}']).split_once(", ") {
                    Some((first, second)) => {
                        push(&format!("\tmov.b32 {}, {first};\n", WORDS[0]));
                        push(&format!("\tmov.b32 {}, {second};\n", WORDS[1]));
                    }
                    None => push(&format!("\tmov.b{bits} {ELEMENT}, {value};\n")),
                }
                push(&format!("\tadd.s64 {ADDRESS}, {base}, {offset};\n"));
                push(&block.text);
                continue;
            }
            if line == ")" && !block.declarations.is_empty() {
                push(&format!(",\n{}\n", block.declarations));
            }
            push(line);
            push("\n");
            if line == "{" {
                push(&format!(
                    "\t.reg .b{bits} {ELEMENT};\n\t.reg .b64 {ADDRESS};\n"
                ));
                push(&format!("\t.reg .b32 {};\n", WORDS.join(", ")));
            }
        }
        text.push_str("}\n");
        text
    }
}

/// Adds the positions of neighbours, from the linear index `first` on. Along the last axis, they
/// are a group, whose other operands are loaded at once.
fn positions(
    lowering: &mut Lowering<'_>,
    value: &NodeRef,
    first: Reg,
    count: usize,
) -> SmallVec<[Position; 4]> {
    if count == 1 || !last_length(value).is_multiple_of(count) {
        let numbers = lowering.body.neighbours(first, count).into_iter();
        let position = |number| lowering.at_linear_index(value.id, &value.shape, number);
        return numbers.map(position).collect();
    }
    let positions = group_positions(lowering, value, first, count);
    lowering.group(&positions);
    positions
}

fn bytes_of(param: &Param) -> usize {
    match param.kind {
        ParamKind::Scalar { size, .. } => size,
        ParamKind::Slice { .. } | ParamKind::Len => size_of::<u64>(),
    }
}

impl<'a> ElementStore<'a> {
    /// Returns the store of an element of the product, or of four, that a line is; other stores of
    /// `f16` and `bf16` are those of partial products.
    fn of(dtype: DType, kernel: BuiltinKernel, line: &'a str) -> Option<Self> {
        let kind = match dtype {
            _ if kernel.is_tensor() => "v2.u32",
            DType::F32 => "f32",
            DType::F64 => "f64",
            dtype => ["u8", "u16", "u32", "u64"][dtype.bytes().trailing_zeros() as usize],
        };
        let operands = line.strip_prefix("\tst.global.")?.strip_prefix(kind)?;
        let (address, value) = operands.trim_start().strip_prefix('[')?.split_once("], ")?;
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        Some(Self {
            base,
            offset,
            value: value.strip_suffix(';')?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kernel, with the number of its stores of elements; that of sums has one or two.
    const STORES: [(BuiltinKernel, usize); 10] = [
        (BuiltinKernel::WideTiles, 16),
        (BuiltinKernel::Tiles, 1),
        (BuiltinKernel::Rows, 1),
        (BuiltinKernel::Columns, 1),
        (BuiltinKernel::ShortRows, 1),
        (BuiltinKernel::Sum, 2),
        (BuiltinKernel::TensorRowsColumns, 1),
        (BuiltinKernel::TensorRowsRows, 1),
        (BuiltinKernel::TensorColumnsColumns, 1),
        (BuiltinKernel::TensorColumnsRows, 1),
    ];

    #[test]
    fn every_store_is_one_of_an_element_or_of_a_partial_product() {
        use DType::{Bf16, F16, F32, F64, I8, I32, I64, U8, U32, U64};
        for dtype in [Bf16, F16, F32, F64, I8, I32, I64, U8, U32, U64] {
            for (kernel, stores) in STORES {
                if kernel.is_tensor() && !dtype.is_half() {
                    continue;
                }
                let text = BuiltinText::of(dtype, kernel);
                let lines = || text.text.lines().filter(|line| line.contains("st.global"));
                let elements =
                    lines().filter(|line| ElementStore::of(dtype, kernel, line).is_some());
                let (counts, others) = (elements.count(), lines().count());
                let (least, partial) = match kernel {
                    BuiltinKernel::Sum => (1, 0),
                    // The compiler joins some stores of neighbouring sums.
                    _ if kernel.is_tensor() => (1, others - counts),
                    _ if dtype.is_half() => (stores, stores),
                    _ => (stores, 0),
                };
                assert!(
                    (least..=stores).contains(&counts) && others == counts + partial,
                    "{dtype:?} {kernel:?}: {counts} of {others} stores"
                );
            }
        }
    }
}
