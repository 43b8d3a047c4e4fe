//! Proposals: the synchronisation that a report proposes for each kind of race, applied.

use millstream_driver::{ConditionalKind, EventKind};
use millstream_sim::race::{Proposal, ProposalKind as P};

use crate::races::{harness::graphs::fill, kernels, prelude::*};

const POLLING: &str = include_str!("../rules/polling.ptx");
/// A size whose fill takes longer than a call.
const LARGE: usize = 64 << 20;

const CHECKED: &str = "(checked: the race is gone, no other appears)";

/// Runs a program without and with the proposed repair. Returns the proposals of the former.
fn repaired(program: impl Fn(&SimHarness, bool)) -> Vec<Proposal> {
    let sim = SimHarness::new(SimConfig::new());
    program(&sim, false);
    // A use after the free loses the context.
    let _ = sim.context_synchronize();
    clean(|sim| program(sim, true));
    let findings = sim.gpu.findings().into_iter();
    findings
        .map(|finding| finding.proposal.expect("no proposal"))
        .collect()
}

fn only(proposals: &[Proposal]) -> (P, Option<u64>, Option<u64>, &str) {
    let [own] = proposals else {
        panic!("{proposals:?}");
    };
    (own.kind, own.after, own.before, &own.text)
}

#[test]
fn v05_an_event_orders_two_streams() {
    let found = repaired(|sim, waits| {
        let (one, other, memory) = (sim.stream(), sim.stream(), zeros(sim, BYTES));
        sim.fill(memory, 1, BYTES, one);
        if waits {
            sim.stream_wait_event(other, sim.recorded(one)).unwrap();
        }
        sim.fill(memory, 2, BYTES, other);
    });
    let text = format!(
        "record an event after operation 2 on stream 1 and make stream 2 wait for it before \
         operation 3 {CHECKED}"
    );
    assert_eq!(only(&found), (P::Event, Some(2), Some(3), text.as_str()));
}

/// The last of several racing operations of a stream orders the others.
#[test]
fn v05_one_event_behind_the_last_of_several_operations_orders_all() {
    let found = repaired(|sim, waits| {
        let (one, other, memory) = (sim.stream(), sim.stream(), zeros(sim, 2 * BYTES));
        let second = memory.offset(BYTES as u64);
        sim.fill(memory, 1, BYTES, one);
        sim.fill(second, 1, BYTES, one);
        if waits {
            sim.stream_wait_event(other, sim.recorded(one)).unwrap();
        }
        sim.fill(memory, 2, 2 * BYTES, other);
        // The same edge orders later work, too.
        sim.fill(second, 2, BYTES, other);
    });
    assert_eq!(found.len(), 3);
    for own in &found {
        assert_eq!(
            (own.kind, own.after, own.before),
            (P::Event, Some(3), Some(4))
        );
    }
    assert!(
        found[0]
            .text
            .contains("after operation 3, fill (256 bytes), on stream 1")
    );
    assert!(
        found[2]
            .text
            .starts_with("the edge proposed from operation 3 to operation 4")
    );
}

#[test]
fn v05_the_host_waits_before_its_access() {
    let found = repaired(|sim, waits| {
        let (stream, memory, target) = (sim.stream(), zeros(sim, BYTES), sim.pinned(BYTES));
        sim.download(target, memory, stream).unwrap();
        if waits {
            sim.stream_synchronize(stream).unwrap();
        }
        sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
        sim.gpu.host_write(target.pointer.as_ptr(), BYTES);
        sim.fill(target.address(), 1, BYTES, sim.stream());
    });
    assert_eq!(found.len(), 3);
    assert!(
        found[0]
            .text
            .starts_with("let the host wait for operation 2 before the access")
    );
    for own in &found {
        assert_eq!(
            (own.kind, own.after, own.before),
            (P::HostWait, Some(2), None)
        );
    }
}

/// Memory is freed on the stream of its last use if that comes after all others, and behind an
/// event otherwise.
#[test]
fn v05_memory_is_freed_where_it_was_used_last() {
    let free = |sim: &SimHarness, applied: bool, readers: usize| {
        let (owner, copy) = (sim.stream(), zeros(sim, 2 * BYTES));
        let memory = sim.mem_alloc_async(BYTES, owner).unwrap();
        sim.fill(memory, 0, BYTES, owner);
        let mut last = owner;
        for reader in 0..readers {
            let stream = sim.stream();
            sim.stream_wait_event(stream, sim.recorded(owner)).unwrap();
            let target = copy.offset((reader * BYTES) as u64);
            launch(sim, "read", stream, &[memory, target]);
            if applied && readers > 1 {
                sim.stream_wait_event(owner, sim.recorded(stream)).unwrap();
            } else if applied {
                last = stream;
            }
        }
        sim.mem_free_async(memory, last).unwrap();
    };
    let found = repaired(|sim, applied| free(sim, applied, 1));
    let text = format!("free the memory on stream 3, behind operation 6, its last use {CHECKED}");
    assert_eq!(
        only(&found),
        (P::FreeOnStream, Some(6), Some(7), text.as_str())
    );
    let found = repaired(|sim, applied| free(sim, applied, 2));
    let kinds: Vec<_> = found.iter().map(|own| (own.kind, own.after)).collect();
    assert_eq!(kinds, [(P::Event, Some(6)), (P::Event, Some(9))]);
    let found = repaired(|sim, applied| {
        let (stream, copy) = (sim.stream(), zeros(sim, BYTES));
        let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
        sim.fill(memory, 0, BYTES, stream);
        if !applied {
            sim.mem_free_async(memory, stream).unwrap();
        }
        launch(sim, "read", stream, &[memory, copy]);
        if applied {
            sim.mem_free_async(memory, stream).unwrap();
        }
    });
    let text = "free the memory only after operation 5";
    assert_eq!(only(&found), (P::FreeLater, Some(4), Some(5), text));
}

/// A kernel loops until the host writes a flag: a wait of the host for the kernel would never end.
#[test]
fn v05_no_wait_is_proposed_that_would_be_a_deadlock() {
    let sim = SimHarness::new(SimConfig::new());
    let (stream, flag, result) = (sim.stream(), sim.pinned(8), zeros(&sim, 4));
    flag.fill(0);
    let kernel = sim.kernel(POLLING, "wait");
    let args = [Arg::Pointer(flag.address()), Arg::Pointer(result)];
    sim.launch(kernel, (1, 1), stream, &args).unwrap();
    sim.gpu.host_write(flag.pointer.as_ptr(), 8);
    flag.fill(1);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    let found: Vec<_> = findings.iter().flat_map(|it| it.proposal.clone()).collect();
    let (kind, after, before, text) = only(&found);
    assert_eq!((kind, after, before), (P::Release, Some(2), None));
    assert!(
        text.starts_with("no wait for operation 2 can, because operation 2 loops"),
        "{text}"
    );
    // Another stream sets the flag by a plain fill.
    let (one, other, flag) = (sim.stream(), sim.stream(), zeros(&sim, 8));
    let args = [Arg::Pointer(flag), Arg::Pointer(result)];
    sim.launch(kernel, (1, 1), one, &args).unwrap();
    sim.fill(flag, 1, 8, other);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    let found = findings.last().unwrap().proposal.clone().unwrap();
    assert_eq!(found.kind, P::Release, "{found}");
}

/// A node has no edge to one in another's body, but the two around them have.
#[test]
fn v05_nodes_of_nested_graphs_are_ordered_by_those_around_them() {
    let found = repaired(|sim, applied| {
        let (memory, graph) = (zeros(sim, BYTES), sim.graph_create().unwrap());
        let condition = sim.graph_condition(graph, 1).unwrap();
        let first = sim.graph_add(graph, &[], &fill(memory, 1, 4)).unwrap();
        let after = if applied { &[first][..] } else { &[] };
        let kind = ConditionalKind::If;
        let around = sim.graph_add_conditional(graph, after, condition, kind);
        let body = around.unwrap().body;
        sim.graph_add(body, &[], &fill(memory, 2, 4)).unwrap();
        let exec = sim.graph_instantiate(graph).unwrap();
        sim.graph_launch(exec, sim.stream()).unwrap();
    });
    let text = format!("make node 2 of executable graph 1 depend on node 1 {CHECKED}");
    let (kind, .., found) = only(&found);
    assert_eq!((kind, found), (P::Dependency, text.as_str()));
}

/// Kernels with an effect that the host sees.
const SEEN: &str = ".version 8.0\n.target sm_75\n.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.visible .global .attribute(.managed) .align 4 .u32 seen;
.global .align 1 .b8 text[2] = {10, 0};
.visible .entry write() { st.global.u32 [seen], 1; ret; }
.visible .entry print() {
.reg .b64 %r<2>; .param .b64 f; .param .b64 a; .param .b32 r;
mov.u64 %r1, text; st.param.b64 [f], %r1; st.param.b64 [a], 0;
call (r), vprintf, (f, a); ret; }";

#[test]
fn v05_waits_that_order_nothing_are_listed_with_their_cost() {
    let listed = |program: &dyn Fn(&SimHarness)| -> Vec<(&str, u64, bool)> {
        let sim = SimHarness::new(SimConfig::new().redundant(true));
        let _label = Label::new("program");
        program(&sim);
        let waits = sim.gpu.redundant_syncs().into_iter();
        waits
            .map(|wait| (wait.call, wait.count, wait.ns > 0))
            .collect()
    };
    // The second fill is behind the first one by its stream, and the download needs the event.
    let program = |sim: &SimHarness, needed: bool| {
        let (one, other, memory) = (sim.stream(), sim.stream(), zeros(sim, LARGE));
        let target = sim.pinned(BYTES);
        sim.fill(memory, 1, LARGE, one);
        sim.event_synchronize(sim.recorded(one)).unwrap();
        sim.fill(memory, 2, BYTES, one);
        if needed {
            sim.stream_wait_event(other, sim.recorded(one)).unwrap();
        }
        sim.download(target, memory, other).unwrap();
        // The host may read the bytes, which the simulator does not see.
        sim.stream_synchronize(other).unwrap();
    };
    assert_eq!(
        listed(&|sim| program(sim, true)),
        [("cuEventSynchronize", 1, true)]
    );
    // A wait of a stream for work that the host has waited for.
    let late = |sim: &SimHarness| {
        let (one, other, memory) = (sim.stream(), sim.stream(), zeros(sim, BYTES));
        sim.fill(memory, 1, BYTES, one);
        let event = sim.recorded(one);
        sim.context_synchronize().unwrap();
        sim.stream_wait_event(other, event).unwrap();
        sim.fill(memory, 2, BYTES, other);
        sim.context_synchronize().unwrap();
    };
    let found = listed(&late);
    assert_eq!(found.len(), 1, "{found:?}");
    // Without a record of the run nothing is listed.
    let sim = SimHarness::new(SimConfig::new());
    program(&sim, true);
    assert_eq!(sim.gpu.redundant_syncs(), []);
    // The program sees a call, output, a managed variable and the time without another call.
    let seen = |name: &'static str| {
        move |sim: &SimHarness| {
            let (stream, kernel) = (sim.stream(), sim.kernel(SEEN, name));
            sim.launch(kernel, (1, 1), stream, &[]).unwrap();
            sim.stream_synchronize(stream).unwrap();
        }
    };
    let call = |sim: &SimHarness| {
        let stream = sim.stream();
        sim.host_function(stream, || {});
        sim.stream_synchronize(stream).unwrap();
    };
    let time = |sim: &SimHarness| {
        let (stream, event) = (sim.stream(), sim.event_create(EventKind::Timing).unwrap());
        sim.event_record(event, stream).unwrap();
        sim.event_synchronize(event).unwrap();
        sim.event_elapsed_ms(event, event).unwrap();
    };
    // A host function may write what a copy on another stream reads.
    let writes = |sim: &SimHarness| {
        let (one, other, memory) = (sim.stream(), sim.stream(), sim.mem_alloc(BYTES).unwrap());
        sim.host_function(one, || {});
        sim.stream_wait_event(other, sim.recorded(one)).unwrap();
        sim.upload(memory, sim.pinned(BYTES), other).unwrap();
        sim.context_synchronize().unwrap();
    };
    let needed: [&dyn Fn(&SimHarness); 5] = [&seen("print"), &seen("write"), &call, &time, &writes];
    for program in needed {
        assert_eq!(listed(program), []);
    }
    // A wait in front of a module's end is needed.
    let unload = |sim: &SimHarness| {
        let (stream, memory) = (sim.stream(), sim.mem_alloc(BYTES).unwrap());
        let module = sim.module_load(kernels::PTX.as_bytes()).unwrap();
        let kernel = sim.module_function(module, "write").unwrap();
        sim.launch(kernel, (1, 64), stream, &[Arg::Pointer(memory)])
            .unwrap();
        sim.stream_synchronize(stream).unwrap();
        sim.module_unload(module).unwrap();
    };
    assert_eq!(listed(&unload), []);
}
