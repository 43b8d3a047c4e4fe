//! The schedules of a kernel that give the same bits.

use crate::{
    plan::{FusedKernel, ROW_THREADS, RowOrder},
    schedule::{
        Choice, JoinedArrays, Machine, MapSchedule, ReduceSchedule, RowSchedule, ScatterSchedule,
        Schedule, TransposedViews,
        choose::{fits_in_parts, fits_in_warp},
        machine::SCATTER_ELEMENTS_MAX,
        schedule,
    },
};

/// Returns schedules of a kernel, those of each kind of machine first.
pub(crate) fn admissible(kernel: &FusedKernel) -> Vec<Schedule> {
    let machines = [Machine::H200, Machine::H100, Machine::A100, Machine::L4];
    let mut all: Vec<Schedule> = Vec::new();
    for machine in machines {
        all.push(schedule(kernel, &machine));
    }
    let root = &kernel.root;
    match all[0] {
        Schedule::Map(_) | Schedule::Transposed => {
            all.push(Schedule::Map(MapSchedule::Single));
            let widths = kernel.values().map(|value| value.dtype.vector_width());
            let width = widths.min().expect("a kernel has an output");
            for lanes in [2, 4].into_iter().filter(|&lanes| lanes <= width) {
                let vectors = [
                    MapSchedule::Groups { lanes },
                    MapSchedule::Vectors { lanes },
                ];
                let possible = vectors.into_iter().filter(|it| it.serves(kernel));
                all.extend(possible.map(Schedule::Map));
            }
            all.extend(TransposedViews::of(kernel).map(|_| Schedule::Transposed));
        }
        Schedule::Join { lanes, .. } => {
            JoinedArrays::of(kernel).expect("the kernel joins arrays");
            for lanes in [1, lanes] {
                all.extend([1, 3].map(|blocks| Schedule::Join { lanes, blocks }));
            }
        }
        Schedule::Row(split, _) if split.threads >= ROW_THREADS => {
            let rows = kernel.rows.expect("a row kernel has rows");
            let mut add = |of_row| all.push(Schedule::Row(split, of_row));
            for (blocks, groups) in [(1, 1), (2, 2), (rows.rows, 4)] {
                add(RowSchedule::LongRow { blocks, groups });
            }
            if RowOrder::of(kernel, rows).is_kept {
                add(RowSchedule::Block);
            }
            if split.threads == ROW_THREADS && fits_in_parts(kernel, rows) {
                for (parts, blocks) in [(2, 12), (4, 20), (8, 32)] {
                    add(RowSchedule::ManyRows { parts, blocks });
                }
            }
        }
        Schedule::Reduce(_) => {
            let Choice::Reduced(rows) = Choice::of(kernel, &Machine::H200) else {
                unreachable!("the kernel is a reduction");
            };
            let order = rows.order(root.elements);
            all.push(Schedule::Reduce(ReduceSchedule::Accumulators(order)));
            if fits_in_warp(rows, order) {
                let warps = [1, 2, 3].map(ReduceSchedule::Warp);
                all.extend(warps.map(Schedule::Reduce));
            }
        }
        Schedule::Scan { order, .. } => {
            all.extend([1, 8].map(|blocks| Schedule::Scan { order, blocks }));
        }
        Schedule::Scatter(ScatterSchedule::Add | ScatterSchedule::AddInShared { .. }) => {
            let mut add = |of_values| all.push(Schedule::Scatter(of_values));
            add(ScatterSchedule::Add);
            if root.elements <= SCATTER_ELEMENTS_MAX {
                for blocks in [1, 3] {
                    add(ScatterSchedule::AddInShared { blocks });
                }
            }
        }
        _ => {}
    }
    let mut seen: Vec<Schedule> = Vec::new();
    all.retain(|schedule| {
        let is_new = !seen.contains(schedule);
        seen.push(*schedule);
        is_new
    });
    all
}
