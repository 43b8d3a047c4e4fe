//! Executable graphs: instantiation, launches and updates.

use std::ffi::c_char;

use millstream_driver::{ContextHandle, DriverError, GraphExecHandle, GraphNodeHandle, ResultCode};

use crate::{
    abi::{
        Copy3dFields, FillNodeFields, Handle, HostNodeFields, In, InstantiateFields,
        KernelNodeFields, KernelNodeFields2, NodeFields, Out, UpdateFields,
    },
    api::{
        graph_node::{self, Fields},
        user_object,
    },
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    objects::ExecutableEntry,
};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`: the simulator frees a graph's memory with the
/// graph in any case.
const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`
const UPLOAD: u64 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`
const DEVICE_LAUNCH: u64 = 4;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`, a hint.
const NODE_PRIORITY: u64 = 8;

/// Resolves the handle of an executable graph: the graph, and the context that it belongs to.
fn exec_of(call: &Call, raw: Handle) -> Answer<(ContextHandle, GraphExecHandle)> {
    let exec = GraphExecHandle::from_raw(raw);
    let objects = call.process()?.objects.lock();
    let found = objects.executables.get(&exec).map(|it| it.context);
    drop(objects);
    match found {
        Some(context) => Ok((context, exec)),
        None => Err(call.wrong_value("executable graph", raw)),
    }
}

/// Checks the flags of an instantiation against those that a function accepts.
fn check_flags(flags: u64, accepted: u64) -> Answer {
    if flags & !accepted != 0 || flags & (AUTO_FREE | DEVICE_LAUNCH) == AUTO_FREE | DEVICE_LAUNCH {
        return Err(ResultCode::INVALID_VALUE);
    }
    refuse_if(flags & DEVICE_LAUNCH != 0, ResultCode::NOT_SUPPORTED)
}

/// Makes an executable graph, and returns it or the node that it fails at.
fn make(
    call: &Call,
    exec: Out<Handle>,
    graph: Handle,
    flags: u64,
) -> Answer<Result<GraphExecHandle, DriverError>> {
    exec.check()?;
    let (context, graph) = call.graph(graph)?;
    let process = call.process()?;
    let made = process.graph_instantiate(context, graph);
    if let Ok(made) = made {
        let entry = ExecutableEntry { context, flags };
        process.objects.lock().executables.insert(made, entry);
        user_object::copy_references(call, graph.as_raw(), made.as_raw())?;
        exec.set(made.as_raw())?;
    }
    Ok(made)
}

/// Returns the number of the node that a call failed at; 0 for none.
fn node_of(error: &DriverError) -> Handle {
    error.graph_node().map_or(0, |node| node.as_raw())
}

/// `cuGraphExecKernelNodeSetParams` and the like: changes a node of an executable graph.
pub(crate) fn set(call: &Call, exec: Handle, node: Handle, fields: Fields) -> Answer {
    let (context, exec) = exec_of(call, exec)?;
    let node = GraphNodeHandle::from_raw(node);
    fields.with(call, context, |operation| {
        call.process()?
            .graph_exec_set_program_node(context, exec, node, operation)
    })
}

/// `cuGraphExecUpdate`. Passes the result for the program to `write`.
pub(crate) fn update(
    call: &Call,
    exec: Handle,
    graph: Handle,
    write: impl FnOnce(UpdateFields),
) -> Answer {
    let (context, exec) = exec_of(call, exec)?;
    let (_, graph) = call.graph(graph)?;
    let updated = call.process()?.graph_exec_update(context, exec, graph);
    let error_node = updated.as_ref().map_or_else(node_of, |()| 0);
    write(UpdateFields {
        result: match &updated {
            Ok(()) => 0,
            Err(error) => match (error.code(), error_node) {
                // CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
                (ResultCode::GRAPH_EXEC_UPDATE_FAILURE, 0) => 2,
                // CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
                (ResultCode::GRAPH_EXEC_UPDATE_FAILURE, _) => 5,
                // CU_GRAPH_EXEC_UPDATE_ERROR
                _ => 1,
            },
        },
        error_node,
        error_from_node: 0,
    });
    updated.map_err(|error| error.code())
}

/// Exports these functions, and those that replace the operation of a node: in a graph, and in an
/// executable one.
macro_rules! exec_exports {
    (
        set { $($kind:ident($fields:ty) $of_node:ident $of_exec:ident $($context:ident)?;)* }
        $($others:tt)*
    ) => {
        exports! {
            $($others)*
            $([$of_node]
            fn _(call, node: Handle, fields: $fields) {
                graph_node::set(call, node, Fields::$kind(fields))
            }

            [$of_exec]
            fn _(call, exec: Handle, node: Handle, fields: $fields $(, $context: Handle)?) {
                set(call, exec, node, Fields::$kind(fields))
            })*
        }
    };
}

exec_exports! {
    set {
        Kernel(In<KernelNodeFields>) cuGraphKernelNodeSetParams cuGraphExecKernelNodeSetParams;
        Kernel2(In<KernelNodeFields2>)
            cuGraphKernelNodeSetParams_v2 cuGraphExecKernelNodeSetParams_v2;
        Copy(In<Copy3dFields>) cuGraphMemcpyNodeSetParams cuGraphExecMemcpyNodeSetParams _context;
        Fill(In<FillNodeFields>) cuGraphMemsetNodeSetParams cuGraphExecMemsetNodeSetParams _context;
        Host(In<HostNodeFields>) cuGraphHostNodeSetParams cuGraphExecHostNodeSetParams;
        Record(Handle) cuGraphEventRecordNodeSetEvent cuGraphExecEventRecordNodeSetEvent;
        Wait(Handle) cuGraphEventWaitNodeSetEvent cuGraphExecEventWaitNodeSetEvent;
    }

    [cuGraphExecChildGraphNodeSetParams]
    fn _(call, exec: Handle, node: Handle, child: Handle) {
        set(call, exec, node, Fields::Child(child))
    }

    /// In the versions before CUDA 12. The log stays empty.
    [cuGraphInstantiate, cuGraphInstantiate_v2]
    fn instantiate(
        call, exec: Out<Handle>, graph: Handle, error_node: Out<Handle>, log: Out<c_char>,
        log_bytes: usize
    ) {
        if log_bytes > 0 {
            log.set_text("", log_bytes)?;
        }
        match make(call, exec, graph, 0)? {
            Ok(_) => Ok(()),
            Err(error) => {
                error_node.set_if_wanted(node_of(&error));
                Err(error.code())
            }
        }
    }

    [cuGraphInstantiateWithFlags]
    fn instantiate_with_flags(call, exec: Out<Handle>, graph: Handle, flags: u64) {
        check_flags(flags, AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY)?;
        let made = make(call, exec, graph, flags)?;
        made.map(drop).map_err(|error| error.code())
    }

    [cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz per_thread]
    fn instantiate_with_params(
        call, exec: Out<Handle>, graph: Handle, fields: Out<InstantiateFields>
    ) {
        let given = fields.get_at(0)?;
        check_flags(
            given.flags,
            AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY,
        )?;
        let made = make(call, exec, graph, given.flags)?;
        let failed_at = made.as_ref().map_or_else(node_of, |_| 0);
        fields.set(InstantiateFields {
            error_node: failed_at,
            // CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, CUDA_GRAPH_INSTANTIATE_ERROR
            result: match &made {
                Ok(_) => 0,
                Err(_) if failed_at != 0 => 2,
                Err(_) => 1,
            },
            ..given
        })?;
        let made = made.map_err(|error| error.code())?;
        if given.flags & UPLOAD != 0 {
            upload(call, made.as_raw(), given.stream)?;
        }
        Ok(())
    }

    [cuGraphExecDestroy]
    fn destroy(call, exec: Handle) {
        let (context, exec) = exec_of(call, exec)?;
        let process = call.process()?;
        process.objects.lock().executables.remove(&exec);
        process.graph_exec_destroy(context, exec)?;
        user_object::drop_references(call, exec.as_raw())
    }

    [cuGraphLaunch, cuGraphLaunch_ptsz per_thread]
    fn launch(call, exec: Handle, stream: Handle) {
        let (_, exec) = exec_of(call, exec)?;
        let (context, stream) = call.stream(stream)?;
        call.process()?.graph_launch(context, exec, stream)
    }

    [cuGraphUpload, cuGraphUpload_ptsz per_thread]
    fn upload(call, exec: Handle, stream: Handle) {
        let (_, exec) = exec_of(call, exec)?;
        let (context, stream) = call.stream(stream)?;
        call.process()?.graph_upload(context, exec, stream)
    }

    [cuGraphExecNodeSetParams]
    fn set_any(call, exec: Handle, node: Handle, fields: In<NodeFields>) {
        set(call, exec, node, Fields::of_node(&fields.get()?)?)
    }

    [cuGraphNodeSetEnabled]
    fn set_enabled(call, exec: Handle, node: Handle, enabled: u32) {
        let (context, exec) = exec_of(call, exec)?;
        let node = GraphNodeHandle::from_raw(node);
        call.process()?
            .graph_exec_set_enabled(context, exec, node, enabled != 0)
    }

    [cuGraphNodeGetEnabled]
    fn enabled(call, exec: Handle, node: Handle, enabled: Out<u32>) {
        enabled.check()?;
        let (context, exec) = exec_of(call, exec)?;
        let node = GraphNodeHandle::from_raw(node);
        let process = call.process()?;
        enabled.set(process.graph_exec_enabled(context, exec, node)?.into())
    }

    [cuGraphExecGetFlags]
    fn flags(call, exec: Handle, flags: Out<u64>) {
        let (_, exec) = exec_of(call, exec)?;
        let objects = call.process()?.objects.lock();
        let entry = objects.executables.get(&exec);
        let given = entry.ok_or(ResultCode::INVALID_VALUE)?.flags;
        // As an H200 answers.
        flags.set(given & !NODE_PRIORITY)
    }

    [cuGraphExecUpdate]
    fn _(call, exec: Handle, graph: Handle, error_node: Out<Handle>, result: Out<i32>) {
        update(call, exec, graph, |fields| {
            error_node.set_if_wanted(fields.error_node);
            result.set_if_wanted(fields.result);
        })
    }

    [cuGraphExecUpdate_v2]
    fn _(call, exec: Handle, graph: Handle, result: Out<UpdateFields>) {
        update(call, exec, graph, |fields| result.set_if_wanted(fields))
    }
}
