//! The properties of devices: `cudaDeviceProp` of CUDA 12 and of CUDA 13.

use std::sync::LazyLock;

use crate::{abi::Ptr, call::check_device, codes::Answer, driver::cu, export::exports, version};

/// A field: its offset in CUDA 12 and in CUDA 13, the size of an element, and the attributes.
struct Field {
    offsets: [Option<usize>; 2],
    bytes: usize,
    attributes: Vec<u32>,
}

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let mut next = || words.next()?.parse().ok();
        Some(Field {
            offsets: [next(), next()],
            bytes: next()?,
            attributes: words.filter_map(|word| word.parse().ok()).collect(),
        })
    };
    let lines = include_str!("../tables/properties.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(row)
        .collect()
});

/// The sizes in CUDA 12 and in CUDA 13, and the offsets of the fields that are no attributes.
const BYTES: [usize; 2] = [1032, 1008];
/// The size in CUDA 11, whose fields are the first ones of CUDA 12.
const BYTES_OF_11: usize = 728;
const NAME_BYTES: usize = 256;
const UUID: usize = 256;
const TOTAL_MEMORY: usize = 288;

/// Returns the properties of a device in a layout.
fn properties(device: i32, layout: usize) -> Answer<Vec<u8>> {
    check_device(device)?;
    let mut properties = vec![0_u8; BYTES[layout]];
    let start = properties.as_mut_ptr().expose_provenance();
    let mut total = 0_usize;
    cu!(cuDeviceGetName, start, NAME_BYTES, device)?;
    cu!(cuDeviceGetUuid_v2, start + UUID, device)?;
    cu!(cuDeviceTotalMem_v2, &mut total, device)?;
    properties[TOTAL_MEMORY..][..8].copy_from_slice(&total.to_ne_bytes());
    for field in &*FIELDS {
        let Some(offset) = field.offsets[layout] else {
            continue;
        };
        for (index, attribute) in field.attributes.iter().enumerate() {
            let mut value = 0_i32;
            // An attribute that the driver does not know is 0.
            let _ = cu!(cuDeviceGetAttribute, &mut value, *attribute, device);
            let value = i64::from(value).to_ne_bytes();
            let place = offset + index * field.bytes;
            properties[place..][..field.bytes].copy_from_slice(&value[..field.bytes]);
        }
    }
    Ok(properties)
}

fn write(target: Ptr<u8>, device: i32, layout: usize, bytes: usize) -> Answer {
    target.check()?;
    let properties = properties(device, layout)?;
    properties
        .iter()
        .take(bytes)
        .enumerate()
        .try_for_each(|(index, byte)| target.at(index).set(*byte))
}

exports! {
    /// In CUDA 12, the function of the programs of CUDA 11.
    Device [cudaGetDeviceProperties] (_call, target: Ptr<u8>, device: i32) {
        match version::major() {
            12 => write(target, device, 0, BYTES_OF_11),
            _ => write(target, device, 1, BYTES[1]),
        }
    }

    Device [cudaGetDeviceProperties_v2] (_call, target: Ptr<u8>, device: i32) {
        write(target, device, 0, BYTES[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fields_of_a_layout_overlap() {
        for layout in [0, 1] {
            let fields = FIELDS.iter().filter_map(|field| {
                let bytes = field.bytes * field.attributes.len();
                Some((field.offsets[layout]?, bytes))
            });
            let mut fields: Vec<_> = fields.collect();
            fields.sort_unstable();
            for pair in fields.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{layout}: {pair:?}");
            }
            let (last, bytes) = fields[fields.len() - 1];
            assert!(last + bytes <= BYTES[layout] && fields.len() > 80);
        }
    }
}
