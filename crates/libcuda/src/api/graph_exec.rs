//! Executable graphs: instantiation, launches and updates.

use std::ffi::c_char;

use millstream_driver::{
    ContextHandle, DriverError, GraphExecHandle, GraphNode, GraphNodeHandle, ResultCode,
};

use crate::{
    abi::{
        Copy3dFields, FillNodeFields, Handle, In, InstantiateFields, KernelNodeFields,
        KernelNodeFields2, Out, UpdateFields,
    },
    api::{
        graph::{copy_of, fill_of, first_version, graph_of, with_kernel},
        user_object,
    },
    call::Call,
    codes::Answer,
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
    let found = objects.executables.get(&exec).copied();
    drop(objects);
    match found {
        Some(context) => Ok((context, exec)),
        None => {
            call.wrong_handle("executable graph", raw);
            Err(ResultCode::INVALID_VALUE)
        }
    }
}

/// Checks the flags of an instantiation against those that a function accepts.
fn check_flags(flags: u64, accepted: u64) -> Answer {
    if flags & !accepted != 0 || flags & (AUTO_FREE | DEVICE_LAUNCH) == AUTO_FREE | DEVICE_LAUNCH {
        return Err(ResultCode::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    Ok(())
}

/// Makes an executable graph, and returns it or the node that it fails at.
fn make(
    call: &Call,
    exec: Out<Handle>,
    graph: Handle,
) -> Answer<Result<GraphExecHandle, DriverError>> {
    exec.check()?;
    let (context, graph) = graph_of(call, graph)?;
    let process = call.process()?;
    let made = process.graph_instantiate(context, graph);
    if let Ok(made) = made {
        process.objects.lock().executables.insert(made, context);
        user_object::copy_references(call, graph.as_raw(), made.as_raw())?;
        exec.set(made.as_raw())?;
    }
    Ok(made)
}

/// Returns the number of the node that a call failed at; 0 for none.
fn node_of(error: &DriverError) -> Handle {
    error.graph_node().map_or(0, |node| node.as_raw())
}

/// `cuGraphInstantiate`, in the versions before CUDA 12. The log stays empty.
pub(crate) fn instantiate(
    call: &Call,
    exec: Out<Handle>,
    graph: Handle,
    error_node: Out<Handle>,
    log: Out<c_char>,
    log_bytes: usize,
) -> Answer {
    if log_bytes > 0 {
        log.set_text("", log_bytes)?;
    }
    match make(call, exec, graph)? {
        Ok(_) => Ok(()),
        Err(error) => {
            error_node.set_if_wanted(node_of(&error));
            Err(error.code())
        }
    }
}

/// `cuGraphInstantiateWithFlags`
pub(crate) fn instantiate_with_flags(
    call: &Call,
    exec: Out<Handle>,
    graph: Handle,
    flags: u64,
) -> Answer {
    check_flags(flags, AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY)?;
    let made = make(call, exec, graph)?;
    made.map(drop).map_err(|error| error.code())
}

/// `cuGraphInstantiateWithParams`
pub(crate) fn instantiate_with_params(
    call: &Call,
    exec: Out<Handle>,
    graph: Handle,
    fields: Out<InstantiateFields>,
) -> Answer {
    let given = fields.get_at(0)?;
    check_flags(
        given.flags,
        AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY,
    )?;
    let made = make(call, exec, graph)?;
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

/// `cuGraphExecDestroy`
pub(crate) fn destroy(call: &Call, exec: Handle) -> Answer {
    let (context, exec) = exec_of(call, exec)?;
    let process = call.process()?;
    process.objects.lock().executables.remove(&exec);
    process.graph_exec_destroy(context, exec)?;
    user_object::drop_references(call, exec.as_raw())
}

/// `cuGraphLaunch`
pub(crate) fn launch(call: &Call, exec: Handle, stream: Handle) -> Answer {
    let (_, exec) = exec_of(call, exec)?;
    let (context, stream) = call.stream(stream)?;
    call.process()?.graph_launch(context, exec, stream)
}

/// `cuGraphUpload`
pub(crate) fn upload(call: &Call, exec: Handle, stream: Handle) -> Answer {
    let (_, exec) = exec_of(call, exec)?;
    let (context, stream) = call.stream(stream)?;
    call.process()?.graph_upload(context, exec, stream)
}

/// Changes a node of an executable graph.
fn set(call: &Call, exec: Handle, node: Handle, operation: &GraphNode<'_>) -> Answer {
    let (context, exec) = exec_of(call, exec)?;
    let node = GraphNodeHandle::from_raw(node);
    call.process()?
        .graph_exec_set_node(context, exec, node, operation)
}

/// `cuGraphExecKernelNodeSetParams`, in its first version.
pub(crate) fn set_kernel(
    call: &Call,
    exec: Handle,
    node: Handle,
    fields: In<KernelNodeFields>,
) -> Answer {
    let (context, _) = exec_of(call, exec)?;
    with_kernel(call, context, &fields.get()?, |kernel| {
        set(call, exec, node, kernel)
    })
}

/// `cuGraphExecKernelNodeSetParams_v2`
pub(crate) fn set_kernel_2(
    call: &Call,
    exec: Handle,
    node: Handle,
    fields: In<KernelNodeFields2>,
) -> Answer {
    let (context, _) = exec_of(call, exec)?;
    with_kernel(call, context, &first_version(&fields.get()?), |kernel| {
        set(call, exec, node, kernel)
    })
}

/// `cuGraphExecMemcpyNodeSetParams`
pub(crate) fn set_copy(
    call: &Call,
    exec: Handle,
    node: Handle,
    fields: In<Copy3dFields>,
    _context: Handle,
) -> Answer {
    set(call, exec, node, &copy_of(call, fields)?)
}

/// `cuGraphExecMemsetNodeSetParams`
pub(crate) fn set_fill(
    call: &Call,
    exec: Handle,
    node: Handle,
    fields: In<FillNodeFields>,
    _context: Handle,
) -> Answer {
    set(call, exec, node, &fill_of(fields)?)
}

/// `cuGraphExecChildGraphNodeSetParams`
pub(crate) fn set_child(call: &Call, exec: Handle, node: Handle, child: Handle) -> Answer {
    let (_, child) = graph_of(call, child)?;
    set(call, exec, node, &GraphNode::Child(child))
}

/// Updates an executable graph, and returns the result for the program.
fn update_to(call: &Call, exec: Handle, graph: Handle) -> Answer<(Answer, UpdateFields)> {
    let (context, exec) = exec_of(call, exec)?;
    let (_, graph) = graph_of(call, graph)?;
    let updated = call.process()?.graph_exec_update(context, exec, graph);
    let fields = |result, error_node| UpdateFields {
        result,
        error_node,
        error_from_node: 0,
    };
    Ok(match updated {
        Ok(()) => (Ok(()), fields(0, 0)),
        Err(error) => {
            let result = match (error.code(), node_of(&error)) {
                // CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
                (ResultCode::GRAPH_EXEC_UPDATE_FAILURE, 0) => 2,
                // CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
                (ResultCode::GRAPH_EXEC_UPDATE_FAILURE, _) => 5,
                // CU_GRAPH_EXEC_UPDATE_ERROR
                _ => 1,
            };
            (Err(error.code()), fields(result, node_of(&error)))
        }
    })
}

/// `cuGraphExecUpdate`, in its first version.
pub(crate) fn update(
    call: &Call,
    exec: Handle,
    graph: Handle,
    error_node: Out<Handle>,
    result: Out<i32>,
) -> Answer {
    let (answer, fields) = update_to(call, exec, graph)?;
    error_node.set_if_wanted(fields.error_node);
    result.set_if_wanted(fields.result);
    answer
}

/// `cuGraphExecUpdate_v2`
pub(crate) fn update_2(
    call: &Call,
    exec: Handle,
    graph: Handle,
    result: Out<UpdateFields>,
) -> Answer {
    let (answer, fields) = update_to(call, exec, graph)?;
    result.set_if_wanted(fields);
    answer
}
