//! Built-in kernels for matrix products with an epilogue, which takes the place of each store of an
//! element in the text of a checked-in module: it gets the element from the register that was
//! stored, and the linear index from the address. If `k` is split, the kernel that sums the partial
//! products has the epilogue.
//!
//! An element of `f16` or `bf16` is rounded before the epilogue, as it is when it is stored. The
//! results are therefore those of two kernels, bit by bit.

use std::sync::Arc;

use millstream::kernel::{Param, ParamKind};
use smallvec::smallvec;

use crate::{
    element::{DType, Scalar},
    emit::{
        body::{
            Block, HEADER, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line,
            value,
        },
        lower::Lowering,
        passes::{GeneratedPasses, Temporary},
    },
    expr::{NodeRef, Op},
    plan::{FusedKernel, IndexAnalysis, are_flat},
    product::{BLOCKS_MAX, BuiltinKernel, LaunchPlan, THREADS, part_bytes, source},
    schedule::product_layout,
};

/// The registers of an element of the product, and of the address to which it is stored.
const ELEMENT: &str = "%element";
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
    value: &'a str,
}

impl BuiltinText {
    fn of(dtype: DType, kernel: BuiltinKernel) -> Self {
        let source = source(dtype);
        let signature = &source.kernels[kernel as usize];
        let (_, text) = source
            .ptx
            .split_once(&format!(".visible .entry {}(\n", signature.name))
            .expect("the module has the kernels of its signatures");
        let (text, _) = text.split_once("\n}\n").expect("a kernel ends");
        let params = signature.params.iter();
        let is_output = |param: &Param| matches!(param.kind, ParamKind::Slice { writable: true });
        let mut stores = text
            .lines()
            .filter_map(|line| ElementStore::of(dtype, line));
        let value = stores.next().expect("the kernel stores elements").value;
        Self {
            dtype,
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
        let ptx = format!("{HEADER}.visible .entry region(\n{}\n}}\n", self.text);
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
        let ptx = [HEADER, &block.functions, &self.text_with(&block)].concat();
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

    /// Generates the epilogue of one element.
    fn epilogue(&self, kernel: &FusedKernel, wide: bool) -> Block {
        let mut body = KernelBody::new(wide);
        body.name_part(self.name);
        let element = self.element(&mut body);
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
        lowering.given = Some((kernel.root.id, element));
        let position = lowering.at_linear_index(value.id, &value.shape, index);
        let result = lowering.lower(value, position);
        lowering
            .body
            .store_output((0, value.dtype), index, &[result]);
        body.finish_block(self.parameter_bytes)
    }

    /// Returns a register with the element, as the registers of its type hold it.
    fn element(&self, body: &mut KernelBody) -> Reg {
        let reg = body.reg(RegClass::of(self.dtype));
        match (self.dtype.is_half(), self.bits) {
            (true, 16) => line!(body; "cvt.u32.u16 {reg}, {ELEMENT};"),
            (true, _) => line!(body; "and.b32 {reg}, {ELEMENT}, 65535;"),
            (false, bits) => line!(body; "mov.b{bits} {reg}, {ELEMENT};"),
        }
        body.narrowed(self.dtype, reg)
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
            }) = ElementStore::of(self.dtype, line)
            {
                push(&format!("\tmov.b{bits} {ELEMENT}, {value};\n"));
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
            }
        }
        text.push_str("}\n");
        text
    }
}

fn bytes_of(param: &Param) -> usize {
    match param.kind {
        ParamKind::Scalar { size, .. } => size,
        ParamKind::Slice { .. } | ParamKind::Len => size_of::<u64>(),
    }
}

impl<'a> ElementStore<'a> {
    /// Returns the store of an element of the product that a line is; other stores of `f16` and
    /// `bf16` are those of partial products.
    fn of(dtype: DType, line: &'a str) -> Option<Self> {
        let kind = match dtype {
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
    const STORES: [(BuiltinKernel, usize); 6] = [
        (BuiltinKernel::WideTiles, 16),
        (BuiltinKernel::Tiles, 1),
        (BuiltinKernel::Rows, 1),
        (BuiltinKernel::Columns, 1),
        (BuiltinKernel::ShortRows, 1),
        (BuiltinKernel::Sum, 2),
    ];

    #[test]
    fn every_store_is_one_of_an_element_or_of_a_partial_product() {
        use DType::{Bf16, F16, F32, F64, I8, I32, I64, U8, U32, U64};
        for dtype in [Bf16, F16, F32, F64, I8, I32, I64, U8, U32, U64] {
            for (kernel, stores) in STORES {
                let text = BuiltinText::of(dtype, kernel);
                let lines = || text.text.lines().filter(|line| line.contains("st.global"));
                let elements = lines().filter(|line| ElementStore::of(dtype, line).is_some());
                let (counts, others) = (elements.count(), lines().count());
                let is_sum = kernel == BuiltinKernel::Sum;
                let (least, partial) = match is_sum {
                    true => (1, 0),
                    false if dtype.is_half() => (stores, stores),
                    false => (stores, 0),
                };
                assert!(
                    (least..=stores).contains(&counts) && others == counts + partial,
                    "{dtype:?} {kernel:?}: {counts} of {others} stores"
                );
            }
        }
    }
}
