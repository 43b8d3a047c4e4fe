//! Lowering of fetches from textures, and of accesses to surfaces.
//!
//! A surface access becomes the computation of an address, and an ordinary access of global memory
//! by the threads that are inside of the surface.

use super::{
    lowerer::{Lowerer, add},
    mnemonic::Mnemonic,
    symbols::Symbol,
    unsupported,
};
use crate::ptx::ir::{
    AccessSpace, Address, AddressBase, Atomic, AtomicOp, Boundary, ImageAccess, ImageOp,
    ImageQuery, MemoryOrder, Op, PredOp, RegisterClass, Slot, Window,
};
use millstream_ptx::{PtxError, Type, ast::Operand};

const QUERIES: [(&str, ImageQuery); 7] = [
    ("width", ImageQuery::Size(0)),
    ("height", ImageQuery::Size(1)),
    ("depth", ImageQuery::Size(2)),
    ("array_size", ImageQuery::Layers),
    ("channel_data_type", ImageQuery::DataType),
    ("channel_order", ImageQuery::Order),
    ("normalized_coords", ImageQuery::Normalized),
];

/// The number of dimensions, and whether there are layers.
const GEOMETRIES: [(&str, (u8, bool)); 5] = [
    ("1d", (1, false)),
    ("2d", (2, false)),
    ("3d", (3, false)),
    ("a1d", (1, true)),
    ("a2d", (2, true)),
];

impl<'a> Lowerer<'a> {
    /// Lowers `tex`, `tld4`, `txq` and `suq`.
    pub(super) fn texture(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let surface = m.base == "suq";
        if m.base.ends_with('q') {
            m.ty_of(&[Type::B32])?;
            let f = ImageOp::Query(m.one_of(&QUERIES)?);
            let [d, object] = m.operands()?;
            let handle = self.image_handle(m, object)?;
            let d = self.target(m, d, Type::B32)?;
            return self.emit_image(ImageAccess {
                surface,
                results: [d; 4],
                ..access(f, (0, false), handle)
            });
        }
        let integer = m.ty_of(&[Type::F32, Type::S32])? == Type::S32;
        let ty = m.ty_of(&[Type::F32, Type::S32, Type::U32])?;
        let geometry = m.one_of(&GEOMETRIES)?;
        let f = if m.base == "tex" {
            ImageOp::Fetch { integer }
        } else {
            ImageOp::Gather(m.one_of(&[("r", 0), ("g", 1), ("b", 2), ("a", 3)])?)
        };
        let gathers = matches!(f, ImageOp::Gather(_));
        if !m.take("v4") || gathers && (integer || geometry.0 != 2) {
            return Err(m.unsupported());
        }
        let [d, object] = m.operands()?;
        let (handle, coordinates) = self.image_operand(m, object, geometry)?;
        let mut results = [0; 4];
        for (result, operand) in results.iter_mut().zip(Self::values(m, d, 4)?) {
            *result = self.target(m, operand, ty)?;
        }
        self.emit_image(ImageAccess {
            coordinates,
            results,
            ..access(f, geometry, handle)
        })
    }

    /// Lowers `suld`, `sust` and `sured`.
    pub(super) fn surface(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let boundary = m.one_of(&[
            ("trap", Boundary::Trap),
            ("clamp", Boundary::Clamp),
            ("zero", Boundary::Zero),
        ])?;
        let geometry = m.one_of(&GEOMETRIES)?;
        m.ignore(&["ca", "cg", "cs", "cv", "wb", "wt"]);
        let reduction = [
            ("add", AtomicOp::Add),
            ("min", AtomicOp::Min),
            ("max", AtomicOp::Max),
            ("and", AtomicOp::And),
            ("or", AtomicOp::Or),
        ];
        let reduction = match m.base {
            "sured" => Some(m.one_of(&reduction)?),
            _ => None,
        };
        let count = Self::vector(m);
        let ty = Self::value_type(m, count)?;
        let fits = match reduction {
            None => matches!(ty, Type::B8 | Type::B16 | Type::B32 | Type::B64),
            Some(_) => count == 1 && ty.bytes() >= 4 && !ty.is_float(),
        };
        // `.p` formats the values, which no compiler emits.
        if !fits || !m.take("b") {
            return Err(m.unsupported());
        }
        let [first, second] = m.operands()?;
        let (object, values) = match m.base {
            "suld" => (second, first),
            _ => (first, second),
        };
        let (handle, coordinates) = self.image_operand(m, object, geometry)?;
        let bytes = u8::try_from(ty.bytes() * count).unwrap_or(u8::MAX);
        let place = ImageAccess {
            surface: true,
            coordinates,
            address: self.temporary(RegisterClass::Double)?,
            inside: self.temporary(RegisterClass::Predicate)?,
            ..access(ImageOp::Place(bytes, boundary), geometry, handle)
        };
        let never = self.constant(RegisterClass::Predicate, 0)?;
        let guard = std::mem::replace(&mut self.guard, crate::ptx::ir::NO_GUARD);
        self.emit(Op::pred(PredOp::Move, place.inside, never, never));
        self.guard = guard;
        self.emit_image(place)?;
        let address = Address {
            base: AddressBase::Double(place.address),
            offset: 0,
        };
        let space = AccessSpace::Is(Window::Global);
        if m.base == "suld" {
            for operand in Self::values(m, values, count)? {
                let d = self.target_wide(m, operand, ty)?;
                let class = RegisterClass::of(d.ty);
                let zero = self.constant(class, 0)?;
                self.emit_move(class, d.slot, zero);
            }
            self.guard = place.inside;
            return self.load_values(m, (values, ty, count), (space, address), None);
        }
        if let Some(f) = reduction {
            let b = self.source(m, values, ty)?;
            let index = add(
                &mut self.code.atomics,
                Atomic {
                    f,
                    ty,
                    order: MemoryOrder::default(),
                    space,
                    address,
                    result: None,
                    b,
                    c: b,
                    high: None,
                },
            );
            self.guard = place.inside;
            self.emit(Op::Atomic(index));
            return Ok(());
        }
        self.guard = place.inside;
        self.store_values(m, (values, ty, count), (space, address), None)
    }

    fn emit_image(&mut self, access: ImageAccess) -> Result<(), PtxError> {
        let index = add(&mut self.code.images, access);
        self.emit(Op::Image(index));
        Ok(())
    }

    /// Returns the slot of the handle in brackets: a register, since a module has no textures of
    /// its own.
    fn image_handle(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
    ) -> Result<Slot, PtxError> {
        let Operand::Address {
            base: Some(name),
            offset: 0,
        } = operand
        else {
            return Err(m.mismatch(operand, "expected a handle"));
        };
        match self.resolve(name)? {
            Symbol::Register(register) if register.ty.bytes() == 8 => Ok(register.slot),
            Symbol::Register(_) => Err(m.mismatch(operand, "expected a 64-bit handle")),
            _ => Err(m.refuse(unsupported::TEXTURE)),
        }
    }

    /// Returns the slots of the handle and of the coordinates, the layer last.
    fn image_operand(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
        (dimensions, layered): (u8, bool),
    ) -> Result<(Slot, [Slot; 4]), PtxError> {
        let Operand::List(parts) = operand else {
            return Err(m.mismatch(operand, "expected a handle and coordinates"));
        };
        let [object, coordinates] = parts.as_slice() else {
            // A sampler beside the texture.
            return Err(m.refuse(unsupported::TEXTURE));
        };
        let handle = self.image_handle(m, object)?;
        let used = usize::from(dimensions) + usize::from(layered);
        // Vectors have 1, 2 or 4 elements.
        let values = Self::values(m, coordinates, used.next_power_of_two())?;
        let (layer, rest) = values.split_at(usize::from(layered));
        let mut slots = [0; 4];
        for (slot, value) in slots.iter_mut().zip(&rest[..usize::from(dimensions)]) {
            *slot = self.source(m, value, Type::B32)?;
        }
        if let [layer] = layer {
            slots[3] = self.source(m, layer, Type::B32)?;
        }
        Ok((handle, slots))
    }
}

fn access(f: ImageOp, (dimensions, layered): (u8, bool), handle: Slot) -> ImageAccess {
    ImageAccess {
        f,
        surface: false,
        dimensions,
        layered,
        handle,
        coordinates: [0; 4],
        results: [0; 4],
        address: 0,
        inside: 0,
    }
}
