//! Declarations and name resolution.

use super::lowerer::Lowerer;
use super::operand::truncate;
use super::symbols::{self, Register, Scope, Symbol};
use crate::ptx::ir::RegisterClass;
use crate::ptx::ir::function_address;
use crate::ptx::ir::{AddressBase, Slot, Window};
use millstream_ptx::Type;
use millstream_ptx::ast::{ELEMENTS, RegisterType, RegistersAst, VariableAst};
use millstream_ptx::{PtxError, PtxErrorKind};

/// The maximum number of registers of one class.
const REGISTERS_MAX: u32 = 1 << 16;

/// The maximum size of the shared or local memory that a kernel may declare, in bytes.
const DECLARED_BYTES_MAX: u32 = 1 << 20;

/// The size of the shared memory reserved for the system, in bytes.
const RESERVED_BYTES: u32 = 1024;

impl<'a> Lowerer<'a> {
    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    pub(super) fn declare(
        &mut self,
        name: &'a str,
        symbol: Symbol<'a>,
        line: u32,
    ) -> Result<(), PtxError> {
        self.scope().add(name, symbol, line)
    }

    pub(super) fn declare_registers(
        &mut self,
        registers: &RegistersAst<'a>,
    ) -> Result<(), PtxError> {
        self.line = registers.line;
        match registers.count {
            Some(count) => self.scope().add_family(registers, count),
            None => {
                let symbol = self.new_registers(registers.ty)?;
                self.declare(registers.name, symbol, registers.line)
            }
        }
    }

    pub(super) fn declare_variable(
        &mut self,
        variable: &'a VariableAst<'a>,
    ) -> Result<(), PtxError> {
        self.line = variable.line;
        let Some(window) = symbols::window(variable) else {
            return Ok(());
        };
        let offset = match window {
            Window::Shared => self.shared_offset(variable)?,
            _ => self.allocate(window, variable)?,
        };
        let symbol = if window == Window::Local && self.frame.is_some() {
            Symbol::Frame(offset)
        } else {
            Symbol::Memory { window, offset }
        };
        self.declare(variable.name, symbol, variable.line)
    }

    /// Returns the offset of a variable in the block's shared memory, allocating it at the first
    /// use.
    fn shared_offset(&mut self, variable: &'a VariableAst<'a>) -> Result<u32, PtxError> {
        let key = std::ptr::from_ref(variable);
        if let Some(offset) = self.shared.get(&key) {
            return Ok(*offset);
        }
        let offset = self.allocate(Window::Shared, variable)?;
        self.shared.insert(key, offset);
        Ok(offset)
    }

    /// Returns the slot of an address in the shared variable that starts at `start`. It is not that
    /// of an equal number, so that checks know the variable.
    pub(super) fn shared_address(
        &mut self,
        class: RegisterClass,
        start: u32,
        offset: i64,
    ) -> Result<Slot, PtxError> {
        let address = u64::from(start).wrapping_add(offset.cast_unsigned());
        let bytes = if class == RegisterClass::Double { 8 } else { 4 };
        self.constant_of(class, truncate(address, bytes), Some(start))
    }

    /// Returns the address at an offset from the start of a variable. If it lies outside of a
    /// variable of shared memory, a register keeps the variable for the check that finds that.
    pub(super) fn place_in_variable(
        &mut self,
        window: Window,
        start: u32,
        offset: i64,
    ) -> Result<(AddressBase, i64), PtxError> {
        let is_outside = |(_, at, bytes): &(String, u32, u32)| {
            *at == start && *bytes > 0 && !(0..i64::from(*bytes)).contains(&offset)
        };
        if window == Window::Shared && self.code.shared_variables.iter().any(is_outside) {
            let slot = self.shared_address(RegisterClass::Double, start, offset)?;
            return Ok((AddressBase::Double(slot), 0));
        }
        Ok((AddressBase::None, offset.wrapping_add(i64::from(start))))
    }

    /// Returns the slot of a special register that describes the reserved shared memory, where
    /// CUDA's libraries keep state of the block; `None` for an unknown register.
    ///
    /// The first use allocates the memory. Two parts of it have separate offsets.
    pub(super) fn reserved_shared(
        &mut self,
        class: RegisterClass,
        register: &str,
    ) -> Result<Option<Slot>, PtxError> {
        let start = match self.reserved {
            Some(start) => start,
            None => {
                let start = self.code.shared_bytes.next_multiple_of(16);
                self.code.shared_bytes = start + RESERVED_BYTES;
                let name = "reserved shared memory".to_owned();
                self.code
                    .shared_variables
                    .push((name, start, RESERVED_BYTES));
                self.reserved = Some(start);
                start
            }
        };
        let value = match register {
            "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => start,
            "%reserved_smem_offset_1" => start + RESERVED_BYTES / 2,
            "%reserved_smem_offset_end" => start + RESERVED_BYTES,
            "%reserved_smem_offset_cap" => RESERVED_BYTES,
            _ => return Ok(None),
        };
        self.constant(class, u64::from(value)).map(Some)
    }

    /// Allocates a variable in the block's shared memory or the thread's local memory, and returns
    /// its offset.
    pub(super) fn allocate(
        &mut self,
        window: Window,
        variable: &VariableAst<'a>,
    ) -> Result<u32, PtxError> {
        let used = match (window, &mut self.frame) {
            (Window::Shared, _) => &mut self.code.shared_bytes,
            (_, Some(frame)) => &mut frame.bytes,
            (_, None) => &mut self.code.local_bytes,
        };
        let too_large = || {
            PtxErrorKind::TooLarge(format!(
                "`{}` exceeds the limit of {DECLARED_BYTES_MAX} bytes for its state space",
                variable.name
            ))
            .at(variable.line)
        };
        let align = u32::try_from(variable.align).map_err(|_| too_large())?;
        let size = u32::try_from(variable.size).map_err(|_| too_large())?;
        let offset = used.next_multiple_of(align);
        let end = offset.saturating_add(size);
        if end > DECLARED_BYTES_MAX {
            return Err(too_large());
        }
        *used = end;
        if window == Window::Shared {
            let name = variable.name.to_owned();
            self.code.shared_variables.push((name, offset, size));
        }
        Ok(offset)
    }

    pub(super) fn new_register(&mut self, ty: Type) -> Result<Register, PtxError> {
        Ok(Register {
            ty,
            slot: self.new_slot(RegisterClass::of(ty))?,
        })
    }

    /// Allocates a scalar, vector or 128-bit register.
    fn new_registers(&mut self, ty: RegisterType) -> Result<Symbol<'a>, PtxError> {
        match ty {
            RegisterType::Scalar(ty) => self.new_register(ty).map(Symbol::Register),
            RegisterType::Vector(ty, elements) => {
                let first = self.new_register(ty)?;
                for _ in 1..elements {
                    self.new_register(ty)?;
                }
                Ok(Symbol::Vector(first, elements))
            }
            RegisterType::Wide => {
                let low = self.new_slot(RegisterClass::Double)?;
                Ok(Symbol::Wide([low, self.new_slot(RegisterClass::Double)?]))
            }
        }
    }

    pub(super) fn new_slot(&mut self, class: RegisterClass) -> Result<Slot, PtxError> {
        let count = match class {
            RegisterClass::Word => &mut self.code.words,
            RegisterClass::Double => &mut self.code.doubles,
            RegisterClass::Predicate => &mut self.code.predicates,
        };
        let slot = *count;
        *count += 1;
        if slot >= REGISTERS_MAX {
            let problem = format!("more than {REGISTERS_MAX} registers of one class");
            return Err(self.error(PtxErrorKind::TooLarge(problem)));
        }
        Ok(slot)
    }

    /// Resolves a name, and creates the register on first use if the name belongs to a register
    /// family.
    pub(super) fn resolve(&mut self, name: &'a str) -> Result<Symbol<'a>, PtxError> {
        if let Some(symbol) = self.resolve_in_function(name)? {
            return Ok(symbol);
        }
        if let Some((stem, selector)) = name.rsplit_once('.')
            && let Some(index) = ELEMENTS
                .iter()
                .position(|symbols| symbols.contains(&selector))
            && let Some(Symbol::Vector(first, elements)) = self.resolve_in_function(stem)?
            && index < usize::from(elements)
        {
            return Ok(Symbol::Register(first.element(index as u8)));
        }
        self.resolve_in_module(name)
    }

    fn resolve_in_function(&mut self, name: &'a str) -> Result<Option<Symbol<'a>>, PtxError> {
        for at in (0..self.scopes.len()).rev() {
            if let Some(symbol) = self.scopes[at].get(name) {
                return Ok(Some(symbol));
            }
            if let Some(family) = self.scopes[at].family_of(name) {
                let symbol = self.new_registers(family.ty)?;
                self.scopes[at].add(name, symbol, self.line)?;
                return Ok(Some(symbol));
            }
        }
        Ok(None)
    }

    fn resolve_in_module(&mut self, name: &'a str) -> Result<Symbol<'a>, PtxError> {
        let module = self.module;
        let is_kernel = || {
            module
                .functions
                .iter()
                .any(|it| it.entry && it.name == name)
        };
        let undefined = || {
            let kind = if is_kernel() {
                let problem = "which only dynamic parallelism, the launch by a kernel, needs";
                PtxErrorKind::Unsupported(format!("the address of kernel `{name}`, {problem}"))
            } else {
                PtxErrorKind::UndefinedSymbol(name.to_owned())
            };
            kind.at(self.line)
        };
        let Some(variable) = module.variable(name) else {
            let (index, _) = module.function(name).ok_or_else(undefined)?;
            return Ok(Symbol::Function(function_address(index)));
        };
        if variable.is_on_device() {
            if variable.external {
                return Err(undefined());
            }
            let index = module.device_variable(name).ok_or_else(undefined)?;
            return Ok(Symbol::Variable(u32::try_from(index).unwrap_or(u32::MAX)));
        }
        match symbols::window(variable) {
            Some(Window::Shared) if variable.external && variable.size == 0 => {
                let align = u32::try_from(variable.align).unwrap_or(16);
                self.dynamic_shared_align =
                    Some(self.dynamic_shared_align.unwrap_or(16).max(align));
                Ok(Symbol::DynamicShared)
            }
            Some(window @ Window::Shared) => {
                let offset = self.shared_offset(variable)?;
                Ok(Symbol::Memory { window, offset })
            }
            _ => Err(undefined()),
        }
    }
}
