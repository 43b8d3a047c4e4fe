//! Loops over chunks in shared memory.

use smallvec::SmallVec;

use crate::{
    emit::{
        attention::{
            kernel::{AttentionKernel, Rows},
            tiles::WARP_LINES,
        },
        body::{KernelBody, Reg, RegClass, jump, line, list, value, vector},
    },
    plan::order::attention::{CHUNK_BYTES, CHUNKS, LINE_BYTES},
};

impl AttentionKernel<'_> {
    /// Emits a loop over groups of eight chunks, and then the remaining chunks. A single group
    /// needs no loop. The addresses advance with each group by these numbers of bytes.
    pub(crate) fn over_chunks(
        &self,
        body: &mut KernelBody,
        label: &str,
        chunks: usize,
        addresses: &[(Reg, usize)],
        mut instructions: impl FnMut(&mut KernelBody, usize, &[Reg]),
    ) {
        let current: SmallVec<[Reg; 4]> = addresses
            .iter()
            .map(|(first, _)| value!(body, B32; "mov.b32 {first}"))
            .collect();
        let advance = |body: &mut KernelBody| {
            for (reg, (_, step)) in current.iter().zip(addresses) {
                line!(body; "add.u32 {reg}, {reg}, {step};");
            }
        };
        let (groups, rest) = (chunks / CHUNKS, chunks % CHUNKS);
        if groups > 0 {
            let (count, goes_on) = (body.reg(RegClass::B32), body.predicate());
            if groups > 1 {
                line!(body; "mov.u32 {count}, {groups};");
                body.label(label);
            }
            for chunk in 0..CHUNKS {
                instructions(body, chunk, &current);
            }
            if groups > 1 || rest > 0 {
                advance(body);
            }
            if groups > 1 {
                line!(body; "sub.u32 {count}, {count}, 1;");
                jump!(body, goes_on; "{label}" if "ne.u32 {count}, 0");
            }
        }
        for chunk in 0..rest {
            instructions(body, chunk, &current);
        }
    }

    /// Loads a chunk from shared memory.
    pub(crate) fn chunk(
        &self,
        body: &mut KernelBody,
        address: Reg,
        offset: usize,
        lanes: usize,
    ) -> Vec<Reg> {
        let class = RegClass::of(self.dtype);
        let chunk: Vec<Reg> = (0..lanes).map(|_| body.reg(class)).collect();
        let (vector, kind, list) = (vector(lanes), self.kind, list(&chunk));
        line!(body; "ld.shared{vector}.{kind} {list}, [{address}+{offset}];");
        chunk
    }

    /// Loads a chunk of each of the thread's rows, whose lines alternate in halves.
    pub(crate) fn row_chunks(
        &self,
        body: &mut KernelBody,
        first: Reg,
        chunk: usize,
        pitch: usize,
    ) -> Rows {
        let half = CHUNKS / 2;
        let address = if chunk < half {
            first
        } else {
            value!(body, B32; "xor.b32 {first}, {}", LINE_BYTES / 2)
        };
        let row = |row| {
            let offset = row * WARP_LINES * pitch + chunk % half * CHUNK_BYTES;
            self.chunk(body, address, offset, self.sizes.lanes)
        };
        (0..self.sizes.rows()).map(row).collect()
    }
}
