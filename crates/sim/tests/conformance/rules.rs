//! The list of tested rules with the observations that their documentation allows.

use crate::conformance::{
    allocations, async_copies, captures, concurrent, cooperative, events, graphs, host_functions,
    legacy, managed, modules, peers, pool, prelude::*, queues, rows, shared_memory, streams,
    sync_copies, synchronisation, two_devices,
};

pub(crate) struct Rule {
    pub(crate) number: u32,
    /// The number of devices that the test needs.
    pub(crate) devices: i32,
    /// The claim, written as a test name.
    claim: &'static str,
    pub(crate) test: fn(&DeviceHarness) -> Observation,
}

impl Rule {
    /// Returns the accepted observations, for the table.
    pub(crate) fn allowed(&self) -> &'static str {
        let number = format!("{} ", self.number);
        let allowed = include_str!("rules.txt")
            .lines()
            .find_map(|row| row.strip_prefix(&number));
        allowed.expect("rules.txt has a row of each rule")
    }

    pub(crate) fn test_name(&self) -> String {
        let (number, claim) = (self.number, self.claim);
        let devices = if self.devices > 1 { "two_devices_" } else { "" };
        format!("{devices}rule_{number:02}_{claim}")
    }
}

/// Defines the table: for each rule its number, the claim, and the test.
macro_rules! rules {
    ($($number:literal $claim:ident = $module:ident::$test:ident
        $(on $devices:literal devices)?;)*) => {
        pub(crate) const RULES: &[Rule] = &[$(Rule {
            number: $number,
            devices: 1 $(- 1 + $devices)?,
            claim: stringify!($claim),
            test: $module::$test,
        }),*];
    };
}

rules! {
    1 a_pageable_upload_waits_for_the_stream_and_has_read_its_source = sync_copies::r01;
    2 a_page_locked_upload_is_complete_when_it_returns = sync_copies::r02;
    3 a_download_is_complete_when_it_returns = sync_copies::r03;
    4 a_copy_within_the_device_does_not_block = sync_copies::r04;
    5 a_copy_from_host_to_host_is_complete_when_it_returns = sync_copies::r05;
    6 a_small_pageable_upload_has_read_its_source = sync_copies::r06;
    7 page_locked_memory_is_touched_when_the_copy_runs = async_copies::r07;
    8 a_pageable_upload_has_read_its_source_when_it_returns = async_copies::r08;
    9 a_pageable_download_may_block = async_copies::r09;
    10 a_pageable_source_may_be_read_before_its_turn = async_copies::r10;
    11 a_copy_from_host_to_host_is_complete_when_it_returns = async_copies::r11;
    12 a_fill_is_asynchronous_but_of_page_locked_and_managed_memory = async_copies::r12;
    13 a_launch_is_asynchronous = async_copies::r13;
    14 a_captured_copy_has_read_its_source_when_it_returns = async_copies::r14;
    15 a_partly_registered_range_is_refused_or_copied = async_copies::r15;
    16 a_stream_is_first_in_first_out_and_waits_for_no_other = streams::r16;
    17 the_legacy_stream_waits_for_blocking_streams_and_they_for_it = streams::r17;
    18 a_non_blocking_stream_is_exempt = streams::r18;
    19 each_thread_has_a_default_stream_which_the_legacy_one_waits_for = streams::r19;
    20 a_stream_belongs_to_its_context = two_devices::r20 on 2 devices;
    21 destroying_a_stream_returns_and_its_work_completes = streams::r21;
    22 a_record_captures_the_work_so_far = events::r22;
    23 a_wait_keeps_the_capture_that_it_was_issued_with = events::r23;
    24 a_wait_holds_back_later_work_on_the_device = events::r24;
    25 a_pending_event_may_be_destroyed = events::r25;
    26 recording_is_within_a_context_and_waiting_is_not = two_devices::r26 on 2 devices;
    27 host_functions_run_in_stream_order_and_hold_back_later_work = host_functions::r27;
    28 after_an_error_host_functions_are_not_called = host_functions::r28;
    29 calls_that_may_synchronise_streams_do_not_hold_the_host = synchronisation::r29;
    30 freeing_may_wait_for_the_device_and_freeing_in_order_does_not = synchronisation::r30;
    31 pool_memory_is_where_its_stream_is = two_devices::r31 on 2 devices;
    32 pool_memory_begins_and_ends_in_stream_order = pool::r32;
    33 either_free_takes_either_allocation = pool::r33;
    34 the_freeing_stream_may_reuse_at_once = pool::r34;
    35 other_streams_may_reuse_what_they_are_ordered_behind = pool::r35;
    36 a_pool_gives_back_beyond_its_threshold_when_synchronised = pool::r36;
    37 copies_of_pool_memory_work_on_a_thread_without_a_context = pool::r37;
    38 peer_access_to_pool_memory_is_set_on_the_pool = peers::r38 on 2 devices;
    39 peer_access_is_one_directional_and_enabled_once = peers::r39 on 2 devices;
    40 a_capture_ends_on_its_stream_and_its_thread = captures::r40;
    41 waits_join_a_capture_and_branches_must_be_joined = captures::r41;
    42 a_capture_has_no_completion_to_ask_for = captures::r42;
    43 a_violation_makes_a_capture_invalid = captures::r43;
    44 the_mode_says_whose_unsafe_calls_are_refused = captures::r44;
    45 memory_allocated_in_a_capture_belongs_to_the_graph = captures::r45;
    46 launches_of_one_executable_graph_run_one_after_the_other = graphs::r46;
    47 an_executable_graph_may_be_destroyed_in_flight = graphs::r47;
    48 a_graph_holds_addresses = graphs::r48;
    49 managed_memory_has_one_address = managed::r49;
    50 the_host_touches_managed_memory_while_a_kernel_runs = managed::r50;
    51 hints_change_no_value_and_want_managed_memory = managed::r51;
    52 a_copy_of_rows_touches_nothing_between_them = rows::r52;
    53 loading_beside_a_kernel_may_wait_for_it = modules::r53;
    54 a_queue_is_finite = queues::r54;
    55 synchronising_the_legacy_stream_waits_for_blocking_streams = legacy::r55;
    56 every_allocation_is_aligned = allocations::r56;
    57 a_kernel_opts_in_to_more_dynamic_shared_memory = shared_memory::r57;
    58 the_blocks_of_a_cooperative_launch_are_resident_together = cooperative::r58;
    59 a_change_of_an_executable_graph_concerns_later_launches = graphs::r59;
    60 a_kernel_sets_the_condition_of_a_conditional_node = graphs::r60;
    61 nodes_run_after_their_dependencies = graphs::r61;
    63 a_kernel_sees_what_another_one_or_the_host_writes_meanwhile = concurrent::r63;
}
