//! Rules 46 to 48 and 59 to 61: graphs of explicit nodes.

use millstream_driver::{ConditionalKind, Copy2d, GraphHandle, GraphNode, GraphNodeHandle, Side2d};

use crate::conformance::{
    captures::launch_once,
    harness::graphs::{GRAPH_PTX, copy, fill},
    prelude::*,
};

const BYTES: usize = 64;

/// Adds a kernel of [`GRAPH_PTX`] with one thread.
fn kernel(
    dev: &DeviceHarness,
    graph: GraphHandle,
    after: &[GraphNodeHandle],
    function: FunctionHandle,
    args: [u64; 2],
) -> Result<GraphNodeHandle, Failed> {
    Ok(dev.graph_one_thread(graph, after, function, &args)?)
}

fn word(dev: &DeviceHarness, memory: DevicePtr) -> Result<u32, Failed> {
    let bytes = dev.read(memory, 4, dev.stream()?)?;
    Ok(u32::from_le_bytes(
        bytes.try_into().map_err(|_| "four bytes")?,
    ))
}

fn set_word(dev: &DeviceHarness, memory: DevicePtr, value: u32) -> Result<(), Failed> {
    let stream = dev.stream()?;
    dev.memset_async(memory, FillPattern::U32(value), 1, stream)?;
    Ok(dev.stream_synchronize(stream)?)
}

pub(crate) fn r46(dev: &DeviceHarness) -> Observation {
    let (one, other, memory) = (dev.stream()?, dev.stream()?, dev.memory(BYTES)?);
    let graph = dev.graph_create()?;
    dev.graph_add(graph, &[], &fill(memory, 1, BYTES))?;
    let exec = dev.graph_instantiate(graph)?;
    dev.graph_upload(exec, one)?;
    dev.stream_synchronize(one)?;
    let gate = dev.gate(one)?;
    dev.graph_launch(exec, one)?;
    let gate = dev.returns(gate, || dev.graph_launch(exec, other))?;
    check(
        dev.stays_pending(other)?,
        "the launch waits for the held one",
    )?;
    gate.open();
    dev.stream_synchronize(other)?;
    dev.stream_synchronize(one)?;
    dev.graph_exec_destroy(exec)?;
    dev.graph_destroy(graph)?;
    Ok("returns; the second launch waits on the device".into())
}

pub(crate) fn r47(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(BYTES)?);
    let graph = dev.graph_create()?;
    dev.graph_add(graph, &[], &fill(memory, 5, BYTES))?;
    let exec = dev.graph_instantiate(graph)?;
    dev.graph_upload(exec, stream)?;
    dev.stream_synchronize(stream)?;
    let gate = dev.gate(stream)?;
    dev.graph_launch(exec, stream)?;
    // Rule 62: by the strict reading the call waits for the devices.
    let call = dev.either(gate, || dev.graph_exec_destroy(exec))?;
    let word = call.word();
    drop(call);
    dev.graph_destroy(graph)?;
    check(dev.holds(memory, 5, BYTES, stream)?, "the launch completes")?;
    Ok(format!("{word}; the launch completes"))
}

pub(crate) fn r48(dev: &DeviceHarness) -> Observation {
    let (stream, a, b) = (dev.stream()?, dev.memory(BYTES)?, dev.memory(BYTES)?);
    let graph = dev.graph_create()?;
    dev.graph_add(graph, &[], &copy(b, a, BYTES))?;
    let exec = dev.graph_instantiate(graph)?;
    for value in 1..3 {
        dev.memset_async(a, FillPattern::U8(value), BYTES, stream)?;
        dev.graph_launch(exec, stream)?;
        check(
            dev.holds(b, value, BYTES, stream)?,
            "a launch uses what the memory holds then",
        )?;
    }
    dev.graph_exec_destroy(exec)?;
    dev.graph_destroy(graph)?;
    Ok("a launch uses what the addresses hold then".into())
}

pub(crate) fn r59(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(BYTES)?);
    let seen = dev.memory(2 * BYTES)?;
    let make = |value| -> Result<_, Failed> {
        let graph = dev.graph_create()?;
        let node = dev.graph_add(graph, &[], &fill(memory, value, BYTES))?;
        Ok((graph, node))
    };
    let (graph, node) = make(1)?;
    let (other, _) = make(3)?;
    let exec = dev.graph_instantiate(graph)?;
    let gate = dev.gate(stream)?;
    for (place, value) in [(0, 2), (1, 3)] {
        dev.graph_launch(exec, stream)?;
        let seen = seen.offset(place * BYTES as u64);
        dev.copy_device_to_device_async(seen, memory, BYTES, stream)?;
        if value == 2 {
            dev.graph_set(exec, node, &fill(memory, value, BYTES))?;
        } else {
            dev.graph_exec_update(exec, other)?;
        }
    }
    gate.open();
    dev.graph_launch(exec, stream)?;
    check(
        dev.holds(seen, 1, BYTES, stream)?
            && dev.holds(seen.offset(BYTES as u64), 2, BYTES, stream)?
            && dev.holds(memory, 3, BYTES, stream)?,
        "a launch keeps what it was enqueued with",
    )?;
    dev.graph_set_own(graph, node, &fill(memory, 4, BYTES))?;
    dev.graph_launch(exec, stream)?;
    check(
        dev.holds(memory, 3, BYTES, stream)?,
        "a change of the graph itself changes no executable graph",
    )?;
    dev.graph_exec_update(exec, graph)?;
    dev.graph_launch(exec, stream)?;
    check(
        dev.holds(memory, 4, BYTES, stream)?,
        "until that is updated",
    )?;
    dev.graph_add(other, &[], &fill(seen, 1, BYTES))?;
    let refused = dev.refusal(dev.graph_exec_update(exec, other))?;
    check(
        refused == ResultCode::GRAPH_EXEC_UPDATE_FAILURE,
        &format!("another topology: {refused}"),
    )?;
    dev.graph_exec_destroy(exec)?;
    dev.graph_destroy(graph)?;
    dev.graph_destroy(other)?;
    let rows = |target, source| {
        GraphNode::Copy(Copy2d {
            source: Side2d::device(source, BYTES / 2),
            target: Side2d::device(target, BYTES / 2),
            width_bytes: 8,
            height: 2,
        })
    };
    let graph = dev.graph_create()?;
    let node = dev.graph_add(graph, &[], &rows(memory, seen))?;
    let exec = dev.graph_instantiate(graph)?;
    let set_rows = dev.taken_or_code(dev.graph_set(exec, node, &rows(seen, memory)));
    dev.graph_exec_destroy(exec)?;
    dev.graph_destroy(graph)?;
    Ok(format!(
        "later launches only; another topology: {refused}; setting a copy of two rows: {set_rows}"
    ))
}

pub(crate) fn r60(dev: &DeviceHarness) -> Observation {
    let (stream, left, sum) = (dev.stream()?, dev.memory(4)?, dev.memory(4)?);
    let module = dev.module_load(GRAPH_PTX.as_bytes())?;
    let (add, count) = (
        dev.module_function(module, "add")?,
        dev.module_function(module, "count")?,
    );
    let graph = dev.graph_create()?;
    let condition = match dev.graph_condition(graph, 1) {
        Ok(condition) => condition,
        Err(error) if error.code() == ResultCode::NOT_SUPPORTED => {
            dev.graph_destroy(graph)?;
            return Ok("no conditional nodes".into());
        }
        Err(error) => return Err(error.into()),
    };
    // The word before the loop: its body sees it.
    let first = dev.graph_add(graph, &[], &fill(left, 0, 4))?;
    let set = kernel(dev, graph, &[first], add, [left.as_raw(), 5])?;
    let kind = ConditionalKind::While;
    let node = dev.graph_add_conditional(graph, &[set], condition, kind)?;
    let added = kernel(dev, node.body, &[], add, [sum.as_raw(), 1])?;
    let args = [left.as_raw(), condition.as_raw()];
    kernel(dev, node.body, &[added], count, args)?;
    kernel(dev, graph, &[node.node], add, [sum.as_raw(), 100])?;
    let exec = dev.graph_instantiate(graph)?;
    for launches in 1..3 {
        dev.graph_launch(exec, stream)?;
        dev.stream_synchronize(stream)?;
        let seen = word(dev, sum)?;
        check(
            seen == 105 * launches,
            &format!("five iterations a launch: {seen} after {launches}"),
        )?;
    }
    dev.graph_exec_destroy(exec)?;
    dev.graph_destroy(graph)?;

    let graph = dev.graph_create()?;
    set_word(dev, sum, 0)?;
    for initial in 0..2 {
        let condition = dev.graph_condition(graph, initial)?;
        let kind = ConditionalKind::If;
        let node = dev.graph_add_conditional(graph, &[], condition, kind)?;
        kernel(
            dev,
            node.body,
            &[],
            add,
            [sum.as_raw(), 1 + u64::from(initial)],
        )?;
    }
    launch_once(dev, graph, stream)?;
    check(word(dev, sum)? == 2, "the body whose condition holds runs")?;
    Ok("a loop of five iterations in each launch; an if body runs if its condition holds".into())
}

pub(crate) fn r61(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(2 * BYTES)?);
    let inner = dev.graph_create()?;
    let first = dev.graph_add(inner, &[], &fill(memory, 1, BYTES))?;
    let second = memory.offset(BYTES as u64);
    dev.graph_add(inner, &[first], &copy(second, memory, BYTES))?;
    let graph = dev.graph_create()?;
    let child = GraphNode::Child(inner);
    let child = dev.graph_add(graph, &[], &child)?;
    let cleared = dev.graph_add(graph, &[child], &fill(memory, 0, BYTES))?;
    // The child is a copy: what is added to its graph later does not run.
    dev.graph_add(inner, &[], &fill(memory, 9, 2 * BYTES))?;
    let joined = dev.graph_add(graph, &[], &GraphNode::Empty)?;
    dev.graph_add_dependencies(graph, &[(cleared, joined)])?;
    let cycle = dev.graph_clone(graph)?;
    launch_once(dev, graph, stream)?;
    check(
        dev.holds(memory, 0, BYTES, stream)? && dev.holds(second, 1, BYTES, stream)?,
        "nodes run after their dependencies, around and in a child",
    )?;
    let a = dev.graph_add(cycle, &[], &GraphNode::Empty)?;
    let b = dev.graph_add(cycle, &[a], &GraphNode::Empty)?;
    let refused = match dev.graph_add_dependencies(cycle, &[(b, a)]) {
        Ok(()) => format!(
            "at instantiation: {}",
            dev.refusal(dev.graph_instantiate(cycle))?
        ),
        Err(error) => format!("when it is made: {}", dev.refusal::<()>(Err(error))?),
    };
    dev.graph_destroy(cycle)?;
    dev.graph_destroy(inner)?;
    Ok(format!(
        "in order; a child is a copy; a cycle is refused {refused}"
    ))
}
