//! Totals that the blocks of a scan publish to each other, in device memory.
//!
//! A total of one component is one word of 64 bits, which is 0 before; relaxed accesses are enough.
//! A component of 32 bits is the upper half of its word, above a 1. An `f64` is stored with all its
//! bits inverted, so that only the NaN whose bits are all 1 would give 0; another NaN takes its
//! place. A total of several components, or of 64 integer bits, has a flag in a word of its own,
//! which a release store sets after the components and acquire loads read before them.
//!
//! The counter from which blocks take their tiles precedes the words or flags. All of them are
//! zeroed before each launch.

use smallvec::{SmallVec, smallvec};

use crate::{
    element::DType,
    emit::{
        body::{Accumulator, KernelBody, Reg, RegClass, copy, line, value},
        passes::Temporary,
        scan::rows::ScanGenerator,
    },
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A component of 32 bits in the upper half of a word, above a 1.
    UpperHalf,
    /// An `f64`, inverted.
    Inverted,
    /// Components, and a flag for all of them.
    Flagged,
}

impl Form {
    /// Returns the form for totals with components of these types.
    fn of(components: &[DType]) -> Self {
        match components {
            [DType::F64] => Form::Inverted,
            [only] if only.bytes() == size_of::<u32>() => Form::UpperHalf,
            _ => Form::Flagged,
        }
    }

    /// Returns the size of a word or flag in bytes.
    fn mark_bytes(self) -> usize {
        match self {
            Form::Flagged => size_of::<u32>(),
            _ => size_of::<u64>(),
        }
    }

    /// Returns the number of arrays in front of the words or flags, for components of these types.
    fn arrays(self, components: &[DType]) -> usize {
        match self {
            Form::Flagged => components.len(),
            _ => 0,
        }
    }
}

pub(crate) fn arrays_of_totals(components: &[DType], totals: usize) -> SmallVec<[Temporary; 2]> {
    let form = Form::of(components);
    let mut arrays: SmallVec<[Temporary; 2]> = components[..form.arrays(components)]
        .iter()
        .map(|component| Temporary::of(totals, *component))
        .collect();
    arrays.push(Temporary {
        bytes: (1 + totals) * form.mark_bytes(),
        is_zeroed: true,
    });
    arrays
}

/// The published totals of all rows.
pub(crate) struct Published {
    form: Form,
    /// The address and the size in bytes of each component of the first total, if they have flags.
    components: SmallVec<[(Reg, usize); 2]>,
    /// The address of the counter, which precedes the words or flags.
    pub(crate) counter: Reg,
}

pub(crate) struct Requested(SmallVec<[RequestedTotal; 4]>);

struct RequestedTotal {
    /// The number of the total, and whether the thread needs it.
    at: Reg,
    is_read: Reg,
    /// The address in front of its word or flag, and the word or flag as it was read last.
    address: Reg,
    mark: Reg,
}

impl ScanGenerator<'_> {
    /// Declares the addresses of the published totals.
    pub(crate) fn published(&self, body: &mut KernelBody) -> Published {
        let first = self.kernel.targets();
        let mut address = |number: usize| body.output(first + number);
        let slots = self.reducer.state_types();
        let form = Form::of(&slots);
        let arrays = form.arrays(&slots);
        let sized = |(slot, dtype): (usize, &DType)| (address(slot), dtype.bytes());
        let components = slots[..arrays].iter().enumerate().map(sized).collect();
        Published {
            form,
            components,
            counter: address(arrays),
        }
    }
}

impl Published {
    fn word_of(&self, body: &mut KernelBody, total: &Accumulator) -> Reg {
        let word = body.reg(RegClass::B64);
        if self.form == Form::Inverted {
            line!(body; "mov.b64 {word}, {};", total[0]);
            line!(body; "not.b64 {word}, {word};");
            line!(body; "max.u64 {word}, {word}, 1;");
        } else {
            let one = value!(body, B32; "mov.b32 1");
            let component = value!(body, B32; "mov.b32 {}", total[0]);
            line!(body; "mov.b64 {word}, {{{one}, {component}}};");
        }
        word
    }

    /// Returns the total that a word contains, in registers of the classes of `like`.
    fn total_of(&self, body: &mut KernelBody, word: Reg, like: &Accumulator) -> Accumulator {
        let total = body.reg(like[0].class);
        if self.form == Form::Inverted {
            let bits = value!(body, B64; "not.b64 {word}");
            line!(body; "mov.b64 {total}, {bits};");
        } else {
            let [one, component] = body.regs(RegClass::B32);
            line!(body; "mov.b64 {{{one}, {component}}}, {word};");
            line!(body; "mov.b32 {total}, {component};");
        }
        smallvec![total]
    }

    /// Publishes a total in the threads for which a predicate holds.
    pub(crate) fn publish(
        &self,
        body: &mut KernelBody,
        total: &Accumulator,
        at: Reg,
        is_published: Reg,
    ) {
        let bytes = self.form.mark_bytes();
        let address = body.element(self.counter, at, bytes);
        if self.form != Form::Flagged {
            let word = self.word_of(body, total);
            line!(body; "@{is_published} st.relaxed.gpu.global.b64 [{address}+{bytes}], {word};");
            return;
        }
        for (&(base, bytes), &reg) in self.components.iter().zip(total) {
            let address = body.element(base, at, bytes);
            let kind = reg.class.move_type();
            line!(body; "@{is_published} st.global.{kind} [{address}], {reg};");
        }
        let one = value!(body, B32; "mov.u32 1");
        line!(body; "@{is_published} st.release.gpu.global.u32 [{address}+{bytes}], {one};");
    }

    /// Loads the word or flag of a requested total.
    fn load_mark(&self, body: &mut KernelBody, total: &RequestedTotal) {
        let RequestedTotal {
            is_read,
            address,
            mark,
            ..
        } = total;
        let (order, kind) = match self.form {
            Form::Flagged => ("acquire", "u32"),
            _ => ("relaxed", "b64"),
        };
        let bytes = self.form.mark_bytes();
        line!(body; "@{is_read} ld.{order}.gpu.global.{kind} {mark}, [{address}+{bytes}];");
    }

    /// Begins to load totals where a predicate holds. The others are the identity.
    pub(crate) fn request(
        &self,
        body: &mut KernelBody,
        places: &[(Reg, Reg)],
        identity: &Accumulator,
    ) -> Requested {
        let mut totals = SmallVec::new();
        for &(at, is_read) in places {
            let address = body.element(self.counter, at, self.form.mark_bytes());
            let mark = if self.form == Form::Flagged {
                value!(body, B32; "mov.u32 1")
            } else {
                self.word_of(body, identity)
            };
            totals.push(RequestedTotal {
                at,
                is_read,
                address,
                mark,
            });
        }
        for total in &totals {
            self.load_mark(body, total);
        }
        Requested(totals)
    }

    /// Waits for requested totals, and returns them.
    pub(crate) fn receive(
        &self,
        body: &mut KernelBody,
        Requested(totals): &Requested,
        identity: &Accumulator,
    ) -> Vec<Accumulator> {
        let number = body.label_number();
        let (again, received) = (format!("WAIT{number}"), format!("RECEIVED{number}"));
        let [is_missing, is_each] = body.regs(RegClass::Predicate);
        let kind = match self.form {
            Form::Flagged => "u32",
            _ => "u64",
        };
        body.label(&again);
        for (place, total) in totals.iter().enumerate() {
            let is_zero = if place == 0 { is_missing } else { is_each };
            line!(body; "setp.eq.{kind} {is_zero}, {}, 0;", total.mark);
            if place > 0 {
                line!(body; "or.pred {is_missing}, {is_missing}, {is_each};");
            }
        }
        line!(body; "@!{is_missing} bra {received};");
        for total in totals {
            self.load_mark(body, total);
        }
        line!(body; "bra {again};");
        body.label(&received);
        let value = |total: &RequestedTotal| {
            if self.form != Form::Flagged {
                return self.total_of(body, total.mark, identity);
            }
            let loaded = copy(body, identity);
            for (&(base, bytes), &reg) in self.components.iter().zip(&loaded) {
                let address = body.element(base, total.at, bytes);
                let (kind, is_read) = (reg.class.move_type(), total.is_read);
                line!(body; "@{is_read} ld.global.{kind} {reg}, [{address}];");
            }
            loaded
        };
        totals.iter().map(value).collect()
    }
}
