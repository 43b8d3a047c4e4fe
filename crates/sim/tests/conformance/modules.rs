//! Rule 53: loading a kernel's code may wait for kernels that run; launching what is loaded does not.

use crate::{
    gate::Call,
    kernels::KERNELS_PTX,
    rig::{Outcome, Rig, check},
};

pub(crate) fn r53(rig: &Rig) -> Outcome {
    let (held, stream, memory) = (rig.stream()?, rig.stream()?, rig.memory(4)?);
    let ptx = KERNELS_PTX.as_bytes();

    let mut module = None;
    let load = rig.either(rig.gate(held)?, || {
        module = Some(rig.module_load(ptx)?);
        Ok(())
    })?;
    let load = load.word();
    let module = module.ok_or("a module")?;
    let mut function = None;
    let find = rig.either(rig.gate(held)?, || {
        function = Some(rig.module_function(module, "store")?);
        Ok(())
    })?;
    let find = find.word();
    let function = function.ok_or("a function")?;
    let load_function = rig
        .either(rig.gate(held)?, || rig.function_load(function))?
        .word();

    let gate = rig.returns(rig.gate(held)?, || rig.launch_store(function, memory, 1, stream))?;
    check(rig.gets_done(stream)?, "what is loaded runs beside the gate")?;
    gate.open();

    let lazy = rig.module_function(rig.module_load(ptx)?, "store")?;
    let first = rig.either(rig.gate(held)?, || rig.launch_store(lazy, memory, 2, stream))?;
    let first_word = first.word();
    let runs = match &first {
        Call::Returned(_) if rig.gets_done(stream)? => " and runs",
        Call::Returned(_) => " and waits",
        Call::Blocked => "",
    };
    drop(first);
    rig.stream_synchronize(stream)?;
    Ok(format!(
        "beside a kernel: cuModuleLoadDataEx {load}, cuModuleGetFunction {find}, cuFuncLoad {load_function}, \
         a launch of what is loaded returns and runs, a first launch {first_word}{runs}"
    ))
}
