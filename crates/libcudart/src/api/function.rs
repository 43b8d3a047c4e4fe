//! Attributes, names and parameters of kernels, and kernels of libraries that the program loads.

use crate::{
    abi::{Function, Ptr},
    call,
    driver::cu,
    export::exports,
    registry,
};

/// The attributes of a kernel in the order of `cudaFuncAttributes`, as numbers of
/// `CUfunction_attribute`: three sizes of 8 bytes, and numbers of 4 bytes.
const SIZES: [u32; 3] = [1, 2, 3];
const NUMBERS: [u32; 13] = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14];

exports! {
    Context [cudaFuncGetAttributes] (_call, target: Ptr<usize>, function: Function) {
        target.check()?;
        let function = registry::function(function)?;
        let value = |attribute: u32| {
            let mut value = 0_i32;
            // An attribute that the driver does not know is 0.
            let _ = cu!(cuFuncGetAttribute, &mut value, attribute, function);
            value
        };
        for (index, attribute) in SIZES.into_iter().enumerate() {
            target.at(index).set(value(attribute).unsigned_abs() as usize)?;
        }
        let numbers = target.at(SIZES.len()).to::<i32>();
        for (index, attribute) in NUMBERS.into_iter().enumerate() {
            numbers.at(index).set(value(attribute))?;
        }
        Ok(())
    }

    Context [cudaGetFuncBySymbol] (_call, target: Ptr<usize>, function: Function) {
        target.check()?;
        target.set(registry::function(function)?)
    }

    Context [cudaFuncGetName] (_call, name: Ptr<usize>, function: Function) {
        cu!(cuKernelGetName, name, registry::kernel(function)?)
    }

    Context [cudaFuncGetParamInfo]
    (_call, function: Function, index: usize, offset: Ptr<usize>, bytes: Ptr<usize>) {
        cu!(cuKernelGetParamInfo, registry::kernel(function)?, index, offset, bytes)
    }

    Context [cudaFuncGetParamCount] (_call, function: Function, count: Ptr<usize>) {
        count.check()?;
        let (kernel, mut offset, mut bytes) = (registry::kernel(function)?, 0_usize, 0_usize);
        let is_there = |index: &usize| {
            cu!(cuKernelGetParamInfo, kernel, *index, &mut offset, &mut bytes).is_ok()
        };
        count.set((0..).take_while(is_there).count())
    }

    Context [cudaLibraryGetKernel]
    (_call, kernel: Ptr<usize>, library: usize, name: Ptr<u8>) {
        cu!(cuLibraryGetKernel, kernel, library, name)?;
        registry::add_kernel(kernel.get()?);
        Ok(())
    }

    Context [cudaLibraryEnumerateKernels] (_call, kernels: Ptr<usize>, count: u32, library: usize) {
        cu!(cuLibraryEnumerateKernels, kernels, count, library)?;
        let mut all = 0_u32;
        cu!(cuLibraryGetKernelCount, &mut all, library)?;
        for index in 0..all.min(count) as usize {
            registry::add_kernel(kernels.at(index).get()?);
        }
        Ok(())
    }

    Context [cudaKernelSetAttributeForDevice]
    (_call, kernel: usize, attribute: u32, value: i32, device: i32) {
        call::primary(device)?;
        cu!(cuKernelSetAttribute, attribute, value, kernel, device)
    }
}
