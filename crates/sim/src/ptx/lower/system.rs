//! Lowering of calls to functions that the driver provides: `vprintf`, `__assertfail`, `malloc`,
//! `free` and `cudaGraphSetConditional`.

use super::lowerer::{Lowerer, add};
use super::mnemonic::Mnemonic;
use crate::ptx::ir::RegisterClass;
use crate::ptx::ir::{Access, AccessSpace, Address, MemoryOrder, Op, Slot, SystemCall, Window};
use millstream_ptx::ast::Operand;
use millstream_ptx::{PtxError, PtxErrorKind};

impl<'a> Lowerer<'a> {
    /// Lowers a call to a function without a body.
    pub(super) fn system_call(
        &mut self,
        m: &Mnemonic<'a>,
        name: &str,
        results: &'a [Operand<'a>],
        arguments: &'a [Operand<'a>],
    ) -> Result<(), PtxError> {
        let system = match (name, arguments) {
            ("vprintf", [format, values]) => SystemCall::Print {
                format: self.argument(m, format, RegisterClass::Double)?,
                arguments: self.argument(m, values, RegisterClass::Double)?,
                result: self.temporary(RegisterClass::Word)?,
            },
            ("__assertfail", [message, file, line, function, _]) => SystemCall::Assert {
                message: self.argument(m, message, RegisterClass::Double)?,
                file: self.argument(m, file, RegisterClass::Double)?,
                line: self.argument(m, line, RegisterClass::Word)?,
                function: self.argument(m, function, RegisterClass::Double)?,
            },
            ("free", [pointer]) => SystemCall::Free {
                pointer: self.argument(m, pointer, RegisterClass::Double)?,
            },
            ("cudaGraphSetConditional", [condition, value]) => SystemCall::SetCondition {
                condition: self.argument(m, condition, RegisterClass::Double)?,
                value: self.argument(m, value, RegisterClass::Word)?,
            },
            ("malloc", [bytes]) => SystemCall::Allocate {
                bytes: self.argument(m, bytes, RegisterClass::Double)?,
                align: None,
                result: self.temporary(RegisterClass::Double)?,
            },
            ("__cuda_syscall_aligned_malloc" | "__nv_aligned_device_malloc", [bytes, align]) => {
                SystemCall::Allocate {
                    bytes: self.argument(m, bytes, RegisterClass::Double)?,
                    align: Some(self.argument(m, align, RegisterClass::Double)?),
                    result: self.temporary(RegisterClass::Double)?,
                }
            }
            // Functions of CUDA that the simulated device lacks.
            _ if name.starts_with("cuda") || name.starts_with("__") => {
                let problem = format!("the external function `{name}`");
                return Err(self.error(PtxErrorKind::Unsupported(problem)));
            }
            _ => return Err(self.error(PtxErrorKind::UndefinedSymbol(name.to_owned()))),
        };
        let index = add(&mut self.code.system_calls, system);
        self.emit(Op::SystemCall(index));
        let result = match system {
            SystemCall::Print { result, .. } => Some((RegisterClass::Word, result)),
            SystemCall::Allocate { result, .. } => Some((RegisterClass::Double, result)),
            _ => None,
        };
        if let (Some((class, result)), [target]) = (result, results) {
            let access = self.actual_access(m, target, class, result)?;
            let index = add(&mut self.code.stores, access);
            self.emit(Op::Store(index));
        }
        Ok(())
    }

    /// Emits the load of an argument's value, and returns its slot.
    fn argument(
        &mut self,
        m: &Mnemonic<'a>,
        actual: &'a Operand<'a>,
        class: RegisterClass,
    ) -> Result<Slot, PtxError> {
        let d = self.temporary(class)?;
        let access = self.actual_access(m, actual, class, d)?;
        let index = add(&mut self.code.loads, access);
        self.emit(Op::Load(index));
        Ok(d)
    }

    /// Returns the access to the variable that a call names as an argument or result.
    fn actual_access(
        &mut self,
        m: &Mnemonic<'a>,
        actual: &'a Operand<'a>,
        class: RegisterClass,
        slot: Slot,
    ) -> Result<Access, PtxError> {
        let (base, offset) = self.actual_place(m, actual)?;
        let double = class == RegisterClass::Double;
        Ok(Access {
            space: AccessSpace::Is(Window::Local),
            address: Address {
                base,
                offset: offset.into(),
            },
            width: if double { 8 } else { 4 },
            float: None,
            count: 1,
            sign_extend: 0,
            double,
            synchronises: false,
            order: MemoryOrder::default(),
            values: [slot; 4],
        })
    }
}
