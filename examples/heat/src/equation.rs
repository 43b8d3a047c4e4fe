//! The heat equation on a plate whose rows are spread over the devices of a mesh.

use millstream_region::{Border, Mesh, Result, Sharded, Split, concatenate, region};
use ndarray::{Array2, Axis, s};

/// The plate's temperatures: each device has some of the rows.
pub(crate) type Plate = Sharded<Array2<f32>, 0>;

/// The share of the difference to its neighbours by which a point changes in a step. The explicit
/// method is stable up to 0.25.
const RATE: f32 = 0.2;

/// The number of steps in one region, which is recorded on the host before any of it runs.
const STEPS_PER_REGION: usize = 16;

/// Takes steps of the explicit method. The plate's surroundings are at temperature 0, and its first
/// and last columns keep their temperatures.
///
/// A device needs one row of each neighbour for a step. The terms are added in the same order
/// whatever the number of devices, so that all give the same bits.
#[region(mesh)]
fn steps(plate: &Plate, count: usize) -> Result<Plate> {
    let mut plate = plate.clone();
    for _ in 0..count {
        let (rows, columns) = plate.dim();
        let wide = plate.halo("rows", Axis(0), 1, Border::Zero);
        let centre = wide.slice(s![1..=rows, 1..columns - 1]);
        let (north, south) = (
            wide.slice(s![..rows, 1..columns - 1]),
            wide.slice(s![2.., 1..columns - 1]),
        );
        let (west, east) = (
            wide.slice(s![1..=rows, ..columns - 2]),
            wide.slice(s![1..=rows, 2..]),
        );
        let change = north + south + west + east - &centre * 4.0;
        let inner = centre + change * RATE;
        let (first, last) = (plate.slice(s![.., ..1]), plate.slice(s![.., columns - 1..]));
        plate = concatenate(Axis(1), &[first, inner, last])?;
    }
    Ok(plate)
}

/// Copies a plate to the mesh, each device's rows to it.
pub(crate) fn place(mesh: &Mesh, temperatures: &Array2<f32>) -> Result<Plate> {
    mesh.shard(temperatures, Split::over("rows"))
}

/// Takes many steps.
pub(crate) fn run(mesh: &Mesh, plate: &Plate, count: usize) -> Result<Plate> {
    let mut plate = plate.clone();
    for done in (0..count).step_by(STEPS_PER_REGION) {
        plate = steps(mesh, &plate, STEPS_PER_REGION.min(count - done))?;
    }
    Ok(plate)
}

/// A cold plate with a hot ring and a hot bar on it.
pub(crate) fn heated(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        if row == 0 || row + 1 == rows || column == 0 || column + 1 == columns {
            return 0.0;
        }
        let (y, x) = (
            row as f32 / rows as f32 - 0.5,
            column as f32 / columns as f32 - 0.5,
        );
        let ring = (0.28..0.36).contains(&x.hypot(y));
        let bar = y.abs() < 0.04 && x.abs() < 0.16;
        f32::from(u8::from(ring || bar))
    })
}

#[cfg(test)]
mod tests {
    use millstream::{
        Device,
        sim::{Gpu, SimConfig},
    };

    use super::*;

    fn on_host(plate: &Array2<f32>, count: usize) -> Array2<f32> {
        let mut plate = plate.clone();
        let (rows, columns) = plate.dim();
        for _ in 0..count {
            let at = |row: usize, column: usize| match row.checked_sub(1) {
                Some(row) if row < rows => plate[(row, column)],
                _ => 0.0,
            };
            plate = Array2::from_shape_fn((rows, columns), |(row, column)| {
                let centre = plate[(row, column)];
                if column == 0 || column + 1 == columns {
                    return centre;
                }
                let (north, south) = (at(row, column), at(row + 2, column));
                let (west, east) = (plate[(row, column - 1)], plate[(row, column + 1)]);
                centre + (north + south + west + east - centre * 4.0) * RATE
            });
        }
        plate
    }

    #[test]
    fn every_number_of_devices_gives_the_bits_of_the_host() {
        let plate = heated(23, 12);
        let expected = on_host(&plate, 20);
        for count in 1..=4 {
            let gpu = Gpu::new(SimConfig::new().devices(count));
            let devices: Vec<Device> = (0..count as i32)
                .map(|at| Device::open_simulated(&gpu, at).unwrap())
                .collect();
            let mesh = Mesh::new(devices, [("rows", count as usize)]).unwrap();
            let placed = place(&mesh, &plate).unwrap();
            let found = run(&mesh, &placed, 20).unwrap().to_host().unwrap();
            assert_eq!(found, expected, "{count} devices");
        }
    }
}
