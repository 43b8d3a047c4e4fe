//! Replays of recorded choices, and the exhaustive search of a small program's runs.

use millstream_sim::{ReplayStatus, Search, exec::Jit};

use crate::rules::{prelude::*, schedules::program, sim_harness::SCHEDULES};

fn config(schedule: Schedule) -> SimConfig {
    SimConfig::new().timeline(true).schedule(schedule)
}

#[test]
fn a_token_replays_every_schedule() {
    for schedule in SCHEDULES {
        let first = SimHarness::new(config(schedule).jit(Jit::Off));
        let trace = program(&first);
        let token = first.gpu.replay_token();
        // The token as a user pastes it, which does not enable the timeline. It has nothing of how
        // kernels are executed.
        let spec = format!("sim:jit=now,replay={token}");
        let again = SimHarness::new(SimConfig::parse(&spec).unwrap().timeline(true));
        assert_eq!(program(&again), trace, "{schedule:?}");
        assert_eq!(
            again.gpu.replay_status(),
            ReplayStatus::Exactly,
            "{schedule:?}"
        );
        assert_eq!(again.gpu.replay_token(), token);
    }
}

#[test]
fn a_replay_of_another_program_is_seen() {
    let first = SimHarness::new(config(Schedule::Random(3)));
    program(&first);
    let token = first.gpu.replay_token();
    let again = SimHarness::new(SimConfig::new().replay(token.clone()));
    let (stream, other) = (again.stream(), again.stream());
    let memory = again.mem_alloc(8).unwrap();
    for _ in 0..token.choices() {
        again.fill(memory, 1, 4, stream);
        again.fill(memory.offset(4), 1, 4, other);
    }
    again.context_synchronize().unwrap();
    assert!(matches!(
        again.gpu.replay_status(),
        ReplayStatus::Diverged { .. }
    ));
    let reports = again.gpu.reports();
    let divergences = reports
        .iter()
        .filter(|r| r.kind == ReportKind::ReplayDiverged);
    assert_eq!(divergences.count(), 1, "{reports:?}");
}

#[test]
fn a_choice_that_is_not_there_is_seen_at_once() {
    let token = "1e-00000000-9".parse().unwrap();
    let sim = SimHarness::new(SimConfig::new().replay(token));
    let memory = sim.mem_alloc(8).unwrap();
    sim.fill(memory, 1, 8, sim.stream());
    let ReplayStatus::Diverged { choice: 1, problem } = sim.gpu.replay_status() else {
        panic!("{:?}", sim.gpu.replay_status());
    };
    assert_contains(&problem, "only 1 are eligible after cuMemsetD8Async");
}

#[test]
fn a_replay_of_another_program_ends() {
    let sim = SimHarness::new(SimConfig::new().replay("1e-00000000-0x99.".parse().unwrap()));
    let memory = sim.mem_alloc(8).unwrap();
    let stream = sim.stream();
    sim.fill(memory, 1, 8, stream);
    sim.stream_synchronize(stream).unwrap();
    assert!(matches!(
        sim.gpu.replay_status(),
        ReplayStatus::Diverged { choice: 2, .. }
    ));
}

#[test]
fn calls_that_only_look_alike_are_seen_at_the_end() {
    let run = |config, value: u16| {
        let sim = SimHarness::new(config);
        let memory = sim.mem_alloc(8).unwrap();
        let pattern = match value {
            0..256 => FillPattern::U8(value as u8),
            _ => FillPattern::U16(value),
        };
        sim.memset_async(memory, pattern, 4, sim.stream()).unwrap();
        sim.context_synchronize().unwrap();
        sim.gpu.clone()
    };
    let token = run(config(Schedule::Lazy), 7).replay_token();
    assert_eq!(
        run(SimConfig::new().replay(token.clone()), 7).replay_status(),
        ReplayStatus::Exactly
    );
    let other = run(SimConfig::new().replay(token), 1000);
    assert!(
        matches!(other.replay_status(), ReplayStatus::Diverged { .. }),
        "{:?}",
        other.replay_status()
    );
}

#[test]
fn a_replay_says_how_far_it_got() {
    let run = |config, operations| {
        let sim = SimHarness::new(config);
        let (stream, memory) = (sim.stream(), sim.mem_alloc(8).unwrap());
        for _ in 0..operations {
            sim.fill(memory, 1, 4, stream);
        }
        sim.gpu.clone()
    };
    let token = run(config(Schedule::Eager), 3).replay_token();
    assert_eq!(token.choices(), 3);
    let again =
        |operations| run(SimConfig::new().replay(token.clone()), operations).replay_status();
    assert_eq!(again(2), ReplayStatus::Partly { choices_left: 1 });
    assert_eq!(again(3), ReplayStatus::Exactly);
    assert_eq!(again(4), ReplayStatus::Beyond);
}

/// Runs `program` under every schedule. Returns the result of each run, and the finished search.
fn all<T>(rules: Rules, program: impl Fn(&SimHarness) -> T) -> (Vec<T>, Search) {
    let (mut search, mut outcomes) = (Search::new(), Vec::new());
    while let Some(gpu) = search.next_gpu(&SimConfig::new().rules(rules).timeline(true)) {
        outcomes.push(program(&SimHarness::over(gpu)));
    }
    (outcomes, search)
}

/// Returns the operations in the order in which they ran.
fn order(gpu: &Gpu) -> Vec<u64> {
    gpu.timeline().iter().map(|span| span.operation).collect()
}

#[test]
fn a_search_runs_every_order_once() {
    let (mut orders, search) = all(Rules::observed(), |sim| {
        let memory = sim.mem_alloc(64).unwrap();
        for part in 0..3_u64 {
            let stream = sim.stream();
            let part = memory.offset(part * 16);
            sim.fill(part, 1, 4, stream);
            sim.fill(part, 2, 4, stream);
        }
        sim.context_synchronize().unwrap();
        order(&sim.gpu)
    });
    assert!(search.is_complete() && !search.has_diverged());
    // Six operations in three pairs: 6! / 2!³.
    assert_eq!((orders.len(), search.runs()), (90, 90));
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 90);
}

#[test]
fn a_search_answers_a_query_in_every_way_and_ends_a_polling_host() {
    let (polls, search) = all(Rules::strict(), |sim| {
        let stream = sim.stream();
        let memory = sim.mem_alloc(8).unwrap();
        sim.fill(memory, 1, 8, stream);
        sim.fill(memory, 2, 8, stream);
        let mut polls = 0;
        while sim.pending(stream) {
            polls += 1;
        }
        (polls, order(&sim.gpu).len())
    });
    assert!(search.is_complete());
    assert!(polls.iter().all(|(_, ran)| *ran == 2));
    let most = polls.iter().map(|(polls, _)| *polls).max();
    assert!(
        (0..=3).all(|n| polls.iter().any(|(polls, _)| *polls == n)),
        "{polls:?}"
    );
    assert_eq!(
        most,
        Some(7),
        "each of two operations, after three queries in vain"
    );
}

#[test]
fn a_search_of_a_program_that_is_not_the_same_every_time_says_so() {
    let runs = std::cell::Cell::new(0);
    let (_, search) = all(Rules::observed(), |sim| {
        runs.set(runs.get() + 1);
        let memory = sim.mem_alloc(64).unwrap();
        for _ in 0..2 + runs.get() % 2 {
            sim.fill(memory, 1, 4, sim.stream());
        }
        sim.context_synchronize().unwrap();
    });
    assert!(search.has_diverged() && !search.is_complete());
}

#[test]
fn ranks_find_an_order_that_equal_chances_do_not() {
    let held_up = |schedule| {
        let sim = SimHarness::new(config(schedule));
        let (first, second) = (sim.stream(), sim.stream());
        let memory = sim.mem_alloc(64).unwrap();
        sim.fill(memory, 1, 4, first);
        for _ in 0..30 {
            sim.fill(memory.offset(16), 1, 4, second);
        }
        sim.context_synchronize().unwrap();
        // The operation that was enqueued first ran last.
        order(&sim.gpu).last() == Some(&1)
    };
    assert!(!(0..50).any(|seed| held_up(Schedule::Random(seed))));
    let found = (0..50).filter(|seed| {
        held_up(Schedule::Pct {
            seed: *seed,
            depth: 2,
        })
    });
    assert!((5..45).contains(&found.count()));
}

#[test]
fn a_run_whose_choices_are_not_logged_has_an_empty_token() {
    for (logs, choices) in [(true, 1), (false, 0)] {
        let sim = SimHarness::new(SimConfig::new().log_choices(logs));
        let memory = sim.mem_alloc(4).unwrap();
        sim.fill(memory, 1, 4, sim.stream());
        assert_eq!(sim.gpu.replay_token().choices(), choices);
    }
}
