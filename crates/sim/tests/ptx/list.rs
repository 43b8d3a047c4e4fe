//! The PTX files, embedded in the program: a machine with a GPU may not have the repository.

/// Lists files with run lines by their folders, behind those that were compiled from a source with
/// run lines.
macro_rules! files {
    (
        compiled { $($source:ident: $($compiled:ident)*;)* }
        $($folder:ident: $($name:ident)*;)*
    ) => {
        &[
            $($((
                concat!("compiled/", stringify!($compiled)),
                include_str!(concat!("compiled/", stringify!($source), ".cu")),
                include_str!(concat!("compiled/", stringify!($compiled), ".ptx")),
            ),)*)*
            $($((
                concat!(stringify!($folder), "/", stringify!($name)),
                include_str!(concat!(stringify!($folder), "/", stringify!($name), ".ptx")),
                include_str!(concat!(stringify!($folder), "/", stringify!($name), ".ptx")),
            ),)*)*
        ]
    };
}

/// The name of each file, the text with its run lines (the CUDA C++ source for compiled files), and
/// the PTX.
pub(crate) const FILES: &[(&str, &str, &str)] = files! {
    compiled {
        barrier_objects: barrier_objects barrier_objects_13 barrier_objects_sm_90
        barrier_objects_sm_90_13;
        control: control control_13;
        heap: heap;
        libraries: libraries libraries_13;
        maths: maths;
        services: services services_13;
    }
    files:
        alloca approximate async_copies atomics atomics_sm_90 barriers bits carry comparisons
        constants control conversions conversions_sm_90 directives elect floats floats_sm_86
        functions halves halves_sm_80 halves_sm_80_ftz halves_sm_86 halves_sm_90 integers ldmatrix
        lop3_predicates mbarrier mbarrier_sm_90 memory mma mma_quads mma_sm_80 mma_sm_89 mma_sm_90
        movmatrix names pack packed_integers parameters parameters_large redux
        special_registers_sm_90 stmatrix_sm_90 system vectors video video_parts video_scalar warp
        wide wide_loads_sm_100 wide_sm_90 wmma;
    refused:
        arrive_tx bulk_copy cluster cluster_shape ends fence_proxy_async initial label
        kernel_address launch_by_a_kernel ldmatrix_b8 mapa mma mma_b1 mma_mixed_sums mma_old_target
        mma_old_version mma_registers mma_s4 modifier name opcode operands parameters_8_0
        parameters_most parameters_sm_61 semicolon target texture type video_merged_saturation
        video_minimum_of_saturated video_scaled_unsigned wgmma wmma;
};
