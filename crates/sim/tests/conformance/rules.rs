//! The list of tested rules with the observations that their documentation allows.

use crate::conformance::{
    allocations, async_copies, captures, cooperative,
    device_harness::{DeviceHarness, Observation},
    events, graphs, host_functions, legacy, managed, modules, peers, pool, queues, rows,
    shared_memory, streams, sync_copies, synchronisation, two_devices,
};

/// A rule with its test.
pub(crate) struct Rule {
    pub(crate) number: u32,
    /// The number of devices that the test needs.
    pub(crate) devices: i32,
    /// The claim, written as a test name.
    claim: &'static str,
    /// The accepted observations, for the table.
    pub(crate) allowed: &'static str,
    pub(crate) test: fn(&DeviceHarness) -> Observation,
}

impl Rule {
    pub(crate) fn test_name(&self) -> String {
        let (number, claim) = (self.number, self.claim);
        let devices = if self.devices > 1 { "two_devices_" } else { "" };
        format!("{devices}rule_{number:02}_{claim}")
    }
}

const fn rule(
    number: u32,
    claim: &'static str,
    allowed: &'static str,
    test: fn(&DeviceHarness) -> Observation,
) -> Rule {
    Rule {
        number,
        devices: 1,
        claim,
        allowed,
        test,
    }
}

const fn of_two_devices(rule: Rule) -> Rule {
    Rule { devices: 2, ..rule }
}

pub(crate) const RULES: &[Rule] = &[
    rule(
        1,
        "a_pageable_upload_waits_for_the_stream_and_has_read_its_source",
        "blocks; the source is read by then",
        sync_copies::r01,
    ),
    rule(
        2,
        "a_page_locked_upload_is_complete_when_it_returns",
        "blocks; complete",
        sync_copies::r02,
    ),
    rule(
        3,
        "a_download_is_complete_when_it_returns",
        "blocks; complete",
        sync_copies::r03,
    ),
    rule(
        4,
        "a_copy_within_the_device_does_not_block",
        "returns, pending",
        sync_copies::r04,
    ),
    rule(
        5,
        "a_copy_from_host_to_host_is_complete_when_it_returns",
        "complete; may wait for the stream or not",
        sync_copies::r05,
    ),
    rule(
        6,
        "a_small_pageable_upload_has_read_its_source",
        "blocks or returns; the source is read by then",
        sync_copies::r06,
    ),
    rule(
        7,
        "page_locked_memory_is_touched_when_the_copy_runs",
        "returns; read and written when the copy runs",
        async_copies::r07,
    ),
    rule(
        8,
        "a_pageable_upload_has_read_its_source_when_it_returns",
        "blocks or returns; the source is read by then",
        async_copies::r08,
    ),
    rule(
        9,
        "a_pageable_download_may_block",
        "blocks or returns; arrives when the copy runs",
        async_copies::r09,
    ),
    rule(
        10,
        "a_pageable_source_may_be_read_before_its_turn",
        "what was there at the call, or at the copy's turn",
        async_copies::r10,
    ),
    rule(
        11,
        "a_copy_from_host_to_host_is_complete_when_it_returns",
        "complete; may wait for the stream or not",
        async_copies::r11,
    ),
    rule(
        12,
        "a_fill_is_asynchronous_but_of_page_locked_and_managed_memory",
        "device memory: returns; other: documented to block, which nothing here counts on",
        async_copies::r12,
    ),
    rule(
        13,
        "a_launch_is_asynchronous",
        "returns, pending",
        async_copies::r13,
    ),
    rule(
        14,
        "a_captured_copy_has_read_its_source_when_it_returns",
        "blocks or returns; the source is read by then",
        async_copies::r14,
    ),
    rule(
        15,
        "a_partly_registered_range_is_refused_or_copied",
        "documented to be an invalid value; what is taken must arrive",
        async_copies::r15,
    ),
    rule(
        16,
        "a_stream_is_first_in_first_out_and_waits_for_no_other",
        "in order; not held by another stream",
        streams::r16,
    ),
    rule(
        17,
        "the_legacy_stream_waits_for_blocking_streams_and_they_for_it",
        "both wait",
        streams::r17,
    ),
    rule(
        18,
        "a_non_blocking_stream_is_exempt",
        "neither waits",
        streams::r18,
    ),
    rule(
        19,
        "each_thread_has_a_default_stream_which_the_legacy_one_waits_for",
        "one for each thread; the legacy stream waits",
        streams::r19,
    ),
    of_two_devices(rule(
        20,
        "a_stream_belongs_to_its_context",
        "a launch is refused; a copy may be",
        two_devices::r20,
    )),
    rule(
        21,
        "destroying_a_stream_returns_and_its_work_completes",
        "returns; the work completes",
        streams::r21,
    ),
    rule(
        22,
        "a_record_captures_the_work_so_far",
        "complete before it is recorded, and once that work is done",
        events::r22,
    ),
    rule(
        23,
        "a_wait_keeps_the_capture_that_it_was_issued_with",
        "the earlier capture",
        events::r23,
    ),
    rule(
        24,
        "a_wait_holds_back_later_work_on_the_device",
        "returns; later work waits, earlier does not",
        events::r24,
    ),
    rule(
        25,
        "a_pending_event_may_be_destroyed",
        "the wait stays",
        events::r25,
    ),
    of_two_devices(rule(
        26,
        "recording_is_within_a_context_and_waiting_is_not",
        "a foreign record is refused; foreign waits and queries work",
        two_devices::r26,
    )),
    rule(
        27,
        "host_functions_run_in_stream_order_and_hold_back_later_work",
        "in order; what a driver call in one does is not documented",
        host_functions::r27,
    ),
    rule(
        28,
        "after_an_error_host_functions_are_not_called",
        "not called; the error is sticky",
        host_functions::r28,
    ),
    rule(
        29,
        "calls_that_may_synchronise_streams_do_not_hold_the_host",
        "returns; work behind it may wait for all before it",
        synchronisation::r29,
    ),
    rule(
        30,
        "freeing_may_wait_for_the_device_and_freeing_in_order_does_not",
        "plain frees block or return; ordered ones return",
        synchronisation::r30,
    ),
    of_two_devices(rule(
        31,
        "pool_memory_is_where_its_stream_is",
        "the stream's device",
        two_devices::r31,
    )),
    rule(
        32,
        "pool_memory_begins_and_ends_in_stream_order",
        "returns; right when ordered by events",
        pool::r32,
    ),
    rule(
        33,
        "either_free_takes_either_allocation",
        "both ways",
        pool::r33,
    ),
    rule(
        34,
        "the_freeing_stream_may_reuse_at_once",
        "reuse or not; values in stream order",
        pool::r34,
    ),
    rule(
        35,
        "other_streams_may_reuse_what_they_are_ordered_behind",
        "reuse or not; values in order",
        pool::r35,
    ),
    rule(
        36,
        "a_pool_gives_back_beyond_its_threshold_when_synchronised",
        "kept below the threshold; trimming skips pending frees",
        pool::r36,
    ),
    rule(
        37,
        "copies_of_pool_memory_work_on_a_thread_without_a_context",
        "the seam sees to it",
        pool::r37,
    ),
    of_two_devices(rule(
        38,
        "peer_access_to_pool_memory_is_set_on_the_pool",
        "copies work without; kernels work with it, and fault without",
        peers::r38,
    )),
    of_two_devices(rule(
        39,
        "peer_access_is_one_directional_and_enabled_once",
        "one direction; a second call is refused",
        peers::r39,
    )),
    rule(
        40,
        "a_capture_ends_on_its_stream_and_its_thread",
        "refused on the legacy stream, and on another thread unless relaxed",
        captures::r40,
    ),
    rule(
        41,
        "waits_join_a_capture_and_branches_must_be_joined",
        "joins; an open branch is 904, work outside 905",
        captures::r41,
    ),
    rule(
        42,
        "a_capture_has_no_completion_to_ask_for",
        "invalid: 900, of a captured event 907, of the legacy stream 906",
        captures::r42,
    ),
    rule(
        43,
        "a_violation_makes_a_capture_invalid",
        "ending it reports 901 and yields no graph",
        captures::r43,
    ),
    rule(
        44,
        "the_mode_says_whose_unsafe_calls_are_refused",
        "all threads', this thread's, or none",
        captures::r44,
    ),
    rule(
        45,
        "memory_allocated_in_a_capture_belongs_to_the_graph",
        "one address in every launch",
        captures::r45,
    ),
    rule(
        46,
        "launches_of_one_executable_graph_run_one_after_the_other",
        "returns; waits on the device",
        graphs::r46,
    ),
    rule(
        47,
        "an_executable_graph_may_be_destroyed_in_flight",
        "blocks or returns; the launch completes",
        graphs::r47,
    ),
    rule(
        48,
        "a_graph_holds_addresses",
        "a launch uses what the addresses hold then",
        graphs::r48,
    ),
    rule(
        49,
        "managed_memory_has_one_address",
        "values go round; cuMemFree frees; cuMemFreeAsync is not documented",
        managed::r49,
    ),
    rule(
        50,
        "the_host_touches_managed_memory_while_a_kernel_runs",
        "allowed where the attribute is 1",
        managed::r50,
    ),
    rule(
        51,
        "hints_change_no_value_and_want_managed_memory",
        "values stay; other memory is refused",
        managed::r51,
    ),
    rule(
        52,
        "a_copy_of_rows_touches_nothing_between_them",
        "in each direction; short and long pitches are documented to be refused",
        rows::r52,
    ),
    rule(
        53,
        "loading_beside_a_kernel_may_wait_for_it",
        "blocks or returns; runs beside it or waits",
        modules::r53,
    ),
    rule(
        54,
        "a_queue_is_finite",
        "blocks at any depth from some hundreds on, or never",
        queues::r54,
    ),
    rule(
        55,
        "synchronising_the_legacy_stream_waits_for_blocking_streams",
        "waits for and answers for blocking streams, not for others",
        legacy::r55,
    ),
    rule(
        56,
        "every_allocation_is_aligned",
        "to 256 bytes or more",
        allocations::r56,
    ),
    rule(
        57,
        "a_kernel_opts_in_to_more_dynamic_shared_memory",
        "48 KiB with the kernel's own, more by opting in; a launch beyond it is an invalid value",
        shared_memory::r57,
    ),
    rule(
        58,
        "the_blocks_of_a_cooperative_launch_are_resident_together",
        "they wait for each other; more of them than the device holds are refused",
        cooperative::r58,
    ),
    rule(
        59,
        "a_change_of_an_executable_graph_concerns_later_launches",
        "later launches only; another topology is refused with 910",
        graphs::r59,
    ),
    rule(
        60,
        "a_kernel_sets_the_condition_of_a_conditional_node",
        "the body sees the writes in front of it; each launch begins anew",
        graphs::r60,
    ),
    rule(
        61,
        "nodes_run_after_their_dependencies",
        "in order, around and in a child, which is a copy",
        graphs::r61,
    ),
];
