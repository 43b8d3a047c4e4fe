//! Objects of the program that graphs keep, and that are destroyed with their last reference.

use std::ffi::c_void;

use millstream_driver::ResultCode;

use crate::{
    abi::{Handle, HostFunctionPointer, In, Out},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    host_function,
    objects::{Objects, Tag, UserObjectEntry, UserReference},
};

/// The most references that a call takes or gives.
const COUNT_MAX: u32 = i32::MAX as u32;

/// Checks a number of references.
fn references(count: u32) -> Answer<u64> {
    if (1..=COUNT_MAX).contains(&count) {
        Ok(count.into())
    } else {
        Err(ResultCode::INVALID_VALUE)
    }
}

fn entry(objects: &mut Objects, object: Handle) -> Answer<&mut UserObjectEntry> {
    let found = objects.user_objects.get_mut(&object);
    found.ok_or(ResultCode::INVALID_VALUE)
}

/// Removes references, and calls the functions of objects that have none left.
fn remove(call: &Call, given: &[UserReference]) -> Answer {
    let mut gone = Vec::new();
    let mut objects = call.process()?.objects.lock();
    for reference in given {
        let found = entry(&mut objects, reference.object)?;
        found.references = found.references.saturating_sub(reference.count);
        if found.references == 0 {
            gone.extend(objects.user_objects.remove(&reference.object));
        }
    }
    drop(objects);
    for UserObjectEntry { destroy, data, .. } in gone {
        if let Some(destroy) = destroy {
            (host_function::repeated(destroy, data).function)();
        }
    }
    Ok(())
}

/// Gives a graph that was made from another the same references.
pub(super) fn copy_references(call: &Call, from: Handle, to: Handle) -> Answer {
    let mut objects = call.process()?.objects.lock();
    let Some(held) = objects.graph_references.get(&from).cloned() else {
        return Ok(());
    };
    for reference in &held {
        entry(&mut objects, reference.object)?.references += reference.count;
    }
    let given = objects.graph_references.entry(to).or_default();
    given.extend(held);
    Ok(())
}

/// Releases the references of a graph that is gone, as soon as the device is idle: a launch of it
/// may be pending.
pub(super) fn drop_references(call: &Call, graph: Handle) -> Answer {
    let mut objects = call.process()?.objects.lock();
    let held = objects.graph_references.remove(&graph);
    objects.released.extend(held.into_iter().flatten());
    drop(objects);
    release_if_idle(call)
}

/// Releases the references of graphs that are gone, if the device is idle.
pub(super) fn release_if_idle(call: &Call) -> Answer {
    let process = call.process()?;
    if process.objects.lock().released.is_empty()
        || process.gpu.live_object_counts().pending_operations > 0
    {
        return Ok(());
    }
    let released = std::mem::take(&mut process.objects.lock().released);
    remove(call, &released)
}

exports! {
    [cuUserObjectCreate]
    fn create(
        call, object: Out<Handle>, data: In<c_void>, destroy: HostFunctionPointer, count: u32,
        flags: u32
    ) {
        /// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which is required.
        const NO_DESTRUCTOR_SYNC: u32 = 1;
        object.check()?;
        refuse_if(flags != NO_DESTRUCTOR_SYNC || destroy.is_none(), ResultCode::INVALID_VALUE)?;
        let references = references(count)?;
        let mut objects = call.process()?.objects.lock();
        let handle = objects.next_handle(Tag::UserObject);
        let made = UserObjectEntry {
            references,
            destroy,
            data,
        };
        objects.user_objects.insert(handle, made);
        drop(objects);
        object.set(handle)
    }

    [cuUserObjectRetain]
    fn retain(call, object: Handle, count: u32) {
        let count = references(count)?;
        let mut objects = call.process()?.objects.lock();
        entry(&mut objects, object)?.references += count;
        Ok(())
    }

    [cuUserObjectRelease]
    fn release(call, object: Handle, count: u32) {
        let count = references(count)?;
        remove(call, &[UserReference { object, count }])
    }

    [cuGraphRetainUserObject]
    fn retain_by_graph(call, graph: Handle, object: Handle, count: u32, flags: u32) {
        /// `CU_GRAPH_USER_OBJECT_MOVE`: the graph takes over references of the caller.
        const MOVE: u32 = 1;
        call.graph(graph)?;
        let count = references(count)?;
        refuse_if(flags & !MOVE != 0, ResultCode::INVALID_VALUE)?;
        let mut objects = call.process()?.objects.lock();
        let found = entry(&mut objects, object)?;
        if flags & MOVE == 0 {
            found.references += count;
        }
        let held = objects.graph_references.entry(graph).or_default();
        held.push(UserReference { object, count });
        Ok(())
    }

    [cuGraphReleaseUserObject]
    fn release_by_graph(call, graph: Handle, object: Handle, count: u32) {
        call.graph(graph)?;
        let count = references(count)?;
        let mut objects = call.process()?.objects.lock();
        let held = objects.graph_references.get_mut(&graph);
        let held = held.ok_or(ResultCode::INVALID_VALUE)?;
        let of_object = held.iter().filter(|held| held.object == object);
        if of_object.map(|held| held.count).sum::<u64>() < count {
            return Err(ResultCode::INVALID_VALUE);
        }
        let mut left = count;
        for held in held.iter_mut().filter(|held| held.object == object) {
            let taken = left.min(held.count);
            held.count -= taken;
            left -= taken;
        }
        drop(objects);
        remove(call, &[UserReference { object, count }])
    }
}
