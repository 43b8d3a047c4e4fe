//! The parameters of a kernel, declared at their first use.

use crate::{
    element::{DType, Scalar},
    emit::body::kernel::{
        DeclaredParameter, KernelBody, KernelParameter, ParameterKey, Reg, RegClass,
    },
    expr::NodeRef,
};

impl KernelBody {
    pub(crate) fn index_parameter(&mut self, purpose: ParameterKey, value: i64) -> Reg {
        self.of_index_width(purpose, KernelParameter::Index(value))
    }

    pub(crate) fn named(&mut self, name: &'static str, value: usize) -> Reg {
        self.index_parameter(ParameterKey::Named(name), value as i64)
    }

    /// Returns the register of the start of a view along a source axis.
    pub(crate) fn start(&mut self, view: u64, axis: usize, start: usize) -> Reg {
        self.index_parameter(ParameterKey::Start(view, axis), start as i64)
    }

    /// Returns the register of the step of a view along a source axis.
    pub(crate) fn step(&mut self, view: u64, axis: usize, step: isize) -> Reg {
        self.index_parameter(ParameterKey::Step(view, axis), step as i64)
    }

    pub(crate) fn length(&mut self, node: u64, axis: usize, length: usize) -> Reg {
        let parameter = KernelParameter::Length { node, axis, length };
        self.of_index_width(ParameterKey::Length(node, axis), parameter)
    }

    pub(crate) fn elements_of(&mut self, purpose: ParameterKey, node: &NodeRef) -> Reg {
        let parameter = KernelParameter::ElementsOf {
            node: node.id,
            elements: node.elements,
        };
        self.of_index_width(purpose, parameter)
    }

    fn of_index_width(&mut self, purpose: ParameterKey, parameter: KernelParameter) -> Reg {
        let kind = if self.wide { ".u64" } else { ".u32" };
        self.parameter(purpose, self.index_class(), kind, parameter)
    }

    pub(crate) fn address(&mut self, purpose: ParameterKey, parameter: KernelParameter) -> Reg {
        self.parameter(purpose, RegClass::B64, ".u64", parameter)
    }

    /// Returns the register of the address of a node's elements.
    pub(crate) fn input(&mut self, node: &NodeRef) -> Reg {
        let parameter = KernelParameter::Input(NodeRef::clone(node));
        self.address(ParameterKey::Input(node.id), parameter)
    }

    pub(crate) fn output(&mut self, output: usize) -> Reg {
        let parameter = KernelParameter::Output(output);
        self.address(ParameterKey::Output(output), parameter)
    }

    pub(crate) fn temporary(&mut self, number: usize) -> Reg {
        let parameter = KernelParameter::Temporary(number);
        self.address(ParameterKey::Temporary(number), parameter)
    }

    /// Declares that a register holds a parameter that the body does not declare.
    pub(crate) fn define_parameter(&mut self, purpose: ParameterKey, reg: Reg) {
        self.registers.insert(purpose, reg);
    }

    pub(crate) fn check_code(&mut self, node: &NodeRef, axis: usize, length: usize) -> Reg {
        let parameter = KernelParameter::CheckCode {
            node: NodeRef::clone(node),
            axis,
            length,
        };
        self.parameter(
            ParameterKey::CheckCode(node.id),
            RegClass::B64,
            ".u64",
            parameter,
        )
    }

    /// Returns the register of a scalar that the kind of kernel determines.
    pub(crate) fn scalar(&mut self, purpose: ParameterKey, value: Scalar) -> Reg {
        self.value(purpose, value.dtype(), KernelParameter::Scalar(value))
    }

    pub(crate) fn constant(&mut self, node: u64, value: Scalar) -> Reg {
        let parameter = KernelParameter::Constant(node);
        self.value(ParameterKey::Constant(node), value.dtype(), parameter)
    }

    fn value(&mut self, purpose: ParameterKey, dtype: DType, parameter: KernelParameter) -> Reg {
        let kind = match dtype {
            DType::F32 => ".f32",
            DType::F64 => ".f64",
            DType::I64 | DType::U64 => ".u64",
            _ => ".u32",
        };
        self.parameter(purpose, RegClass::of(dtype).word(), kind, parameter)
    }

    fn parameter(
        &mut self,
        purpose: ParameterKey,
        class: RegClass,
        kind: &'static str,
        parameter: KernelParameter,
    ) -> Reg {
        if let Some(&reg) = self.registers.get(&purpose) {
            return reg;
        }
        let reg = self.reg(class);
        self.parameters.push(DeclaredParameter {
            parameter,
            kind,
            reg,
        });
        self.registers.insert(purpose, reg);
        reg
    }
}
