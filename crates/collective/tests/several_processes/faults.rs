//! Failures of NCCL's calls, of deadlines and of devices, with ranks in one process.

use millstream::{
    Buffer, Result,
    driver::{DeviceOrdinal, ResultCode},
    sim::Schedule,
};

use crate::several_processes::{
    prelude::*,
    threads::{Rank, both, both_under},
};

/// The deadline of collectives that hang.
const DEADLINE: Duration = Duration::from_millis(150);

/// Calls one collective on two elements, and returns the array that it writes.
type Operation = fn(&Rank) -> Result<Buffer<i32>>;

const OPERATIONS: [(&str, Operation); 7] = [
    ("all_reduce", |rank| {
        let mut array = rank.stream.upload(&[1, 2])?;
        rank.collectives
            .all_reduce(&mut [&mut array], Reduce::Sum)?;
        Ok(array)
    }),
    ("reduce_scatter", |rank| {
        let (source, mut target) = (rank.stream.upload(&[1, 2])?, rank.stream.zeros(1)?);
        let targets = &mut [&mut target];
        rank.collectives
            .reduce_scatter(&[&source], targets, Reduce::Sum)?;
        Ok(target)
    }),
    ("all_gather", |rank| {
        let (source, mut target) = (rank.stream.upload(&[7])?, rank.stream.zeros(2)?);
        rank.collectives
            .all_gather(&[&source], &mut [&mut target])?;
        Ok(target)
    }),
    ("broadcast", |rank| {
        let mut array = rank.stream.upload(&[rank.rank as i32, 5])?;
        rank.collectives.broadcast(1, &mut [&mut array])?;
        Ok(array)
    }),
    ("reduce", |rank| {
        let mut array = rank.stream.upload(&[3, 4])?;
        rank.collectives
            .reduce(0, &mut [&mut array], Reduce::Prod)?;
        Ok(array)
    }),
    ("all_to_all", |rank| {
        let own = rank.rank as i32;
        let (source, mut target) = (rank.stream.upload(&[own, own + 2])?, rank.stream.zeros(2)?);
        rank.collectives
            .all_to_all(&[&source], &mut [&mut target])?;
        Ok(target)
    }),
    ("send", |rank| {
        let (source, mut target) = (rank.stream.upload(&[8, 9])?, rank.stream.zeros(2)?);
        let other = 1 - rank.rank;
        rank.collectives.group(|group| {
            group.send(rank.rank, other, &source)?;
            group.recv(rank.rank, other, &mut target)
        })?;
        Ok(target)
    }),
];

/// Calls a collective, and returns what its result holds.
fn outcome(rank: &Rank, operation: Operation) -> Result<Vec<i32>> {
    let array = operation(rank)?;
    rank.stream.download(&array)?.wait()
}

/// Runs every operation with this fault in rank 0, and checks that the group is lost on both ranks
/// with an error that names the operation, and on rank 0 also `reason`.
fn all_lose(fault: Fault, reason: &str) {
    for (label, operation) in OPERATIONS {
        let errors = both(Some(fault), |rank| {
            rank.collectives.set_deadline(Some(DEADLINE));
            let first = outcome(&rank, operation);
            // With some faults rank 1, or the root of a reduction, has its result nevertheless.
            let error = match first {
                Err(error) => error,
                Ok(_) => rank.collectives.close().expect_err("the group is lost"),
            };
            assert!(matches!(error, Error::CollectiveLost { .. }), "{error}");
            let works = rank
                .stream
                .upload(&[1])
                .and_then(|one| rank.stream.download(&one)?.wait());
            assert_eq!(works.expect("the device works"), [1]);
            error.to_string()
        });
        // Rank 1 may learn of the loss before it has called anything.
        let [first, other] = &errors;
        assert!(
            first.contains(&format!("`{label}` at")),
            "{fault:?}: {first}"
        );
        assert!(other.contains("is lost on rank 1"), "{fault:?}: {other}");
        assert!(errors[0].contains(reason), "{label}: {}", errors[0]);
    }
}

#[test]
fn a_refused_call_loses_the_group_on_every_rank() {
    all_lose(Fault::Refuse, "injected failure");
}

#[test]
fn a_failed_communicator_loses_the_group_on_every_rank() {
    all_lose(Fault::Fail, "injected failure");
}

#[test]
fn a_deadline_loses_the_group_on_every_rank() {
    all_lose(Fault::Hang, "lost on rank 0");
}

#[test]
fn a_delayed_operation_gives_its_result_under_every_schedule() {
    let schedules = [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(3),
    ];
    for (label, operation) in OPERATIONS {
        let expected = match label {
            "all_reduce" => [vec![2, 4], vec![2, 4]],
            "reduce_scatter" => [vec![2], vec![4]],
            "all_gather" => [vec![7, 7], vec![7, 7]],
            "broadcast" => [vec![1, 5], vec![1, 5]],
            "reduce" => [vec![9, 16], vec![3, 4]],
            "all_to_all" => [vec![0, 1], vec![2, 3]],
            _ => [vec![8, 9], vec![8, 9]],
        };
        for schedule in schedules {
            let delay = Fault::Delay(Duration::from_millis(30));
            let results = both_under(schedule, Some(delay), |rank| {
                let result = outcome(&rank, operation).expect(label);
                rank.collectives.close().expect("nothing is lost");
                result
            });
            assert_eq!(results, expected, "{label} under {schedule:?}");
        }
    }
}

#[test]
fn a_lost_device_loses_the_group_on_the_other_rank() {
    let errors = both(Some(Fault::Hang), |rank| {
        let mut array = rank.stream.upload(&[1, 2]).unwrap();
        // Rank 1 may call after the device of rank 0 is lost.
        let called = rank.collectives.all_reduce(&mut [&mut array], Reduce::Sum);
        let pending = called.and_then(|()| rank.stream.download(&array));
        if rank.rank == 0 {
            let (lost, code) = (DeviceOrdinal::from_raw(0), ResultCode::ILLEGAL_ADDRESS);
            let fault = millstream::sim::Fault::nth(1).losing(lost, code);
            rank.gpu.inject(fault);
        }
        let result = pending.and_then(|pending| pending.wait());
        let error = result.expect_err("the collective does not end");
        (error, rank.device.lost().is_some())
    });
    let [(_, first_is_lost), (other, other_is_lost)] = errors;
    assert!(first_is_lost && !other_is_lost);
    assert!(matches!(other, Error::CollectiveLost { .. }), "{other}");
    let text = other.to_string();
    assert!(text.contains("is lost on rank 1"), "{text}");
}

#[test]
fn dropping_a_group_with_work_in_flight_does_not_wait() {
    let errors = both(Some(Fault::Hang), |rank| {
        rank.collectives.set_deadline(Some(Duration::from_secs(1)));
        let mut array = rank.stream.upload(&[1, 2]).unwrap();
        rank.collectives
            .all_reduce(&mut [&mut array], Reduce::Sum)
            .unwrap();
        let began = Instant::now();
        drop(rank.collectives);
        assert!(began.elapsed() < Duration::from_millis(250));
        // The deadline still applies.
        let result = rank
            .stream
            .download(&array)
            .and_then(|pending| pending.wait());
        result.expect_err("the collective is lost").to_string()
    });
    assert!(
        errors[0].contains("within 1s") || errors[1].contains("within 1s"),
        "{errors:?}"
    );
}

#[test]
fn groups_that_are_dropped_deliver_their_results() {
    let results = both(Some(Fault::Delay(Duration::from_millis(50))), |rank| {
        let mut array = rank.stream.upload(&[1, 2]).unwrap();
        rank.collectives
            .all_reduce(&mut [&mut array], Reduce::Sum)
            .unwrap();
        drop(rank.collectives);
        rank.stream.download(&array).unwrap().wait().unwrap()
    });
    assert_eq!(results, [[2, 4], [2, 4]]);
}

#[test]
fn a_collective_that_ends_at_its_deadline_is_right_or_lost() {
    for delay_ms in (70..=130).step_by(10) {
        let results = both(
            Some(Fault::Delay(Duration::from_millis(delay_ms))),
            |rank| {
                rank.collectives
                    .set_deadline(Some(Duration::from_millis(100)));
                let mut array = rank.stream.upload(&[1, 2]).unwrap();
                let called = rank.collectives.all_reduce(&mut [&mut array], Reduce::Sum);
                let pending = called.and_then(|()| rank.stream.download(&array));
                pending.and_then(|pending| pending.wait())
            },
        );
        for result in results {
            match result {
                Ok(sum) => assert_eq!(sum, [2, 4], "after {delay_ms} ms"),
                Err(Error::CollectiveLost { .. }) => {}
                Err(error) => panic!("after {delay_ms} ms: {error}"),
            }
        }
    }
}

#[test]
fn p10_closing_names_a_difference_that_no_operation_noticed() {
    let lost = both(None, |rank| {
        if rank.rank == 0 {
            // The stand-in completes a send that no rank receives.
            let source = rank.stream.upload(&[1, 2]).unwrap();
            rank.collectives
                .group(|group| group.send(0, 1, &source))
                .unwrap();
            rank.stream.synchronize().unwrap();
        }
        rank.collectives.close().expect_err("the calls differ")
    });
    for error in lost {
        let text = error.to_string();
        assert!(matches!(error, Error::CollectiveLost { .. }), "{text}");
        for part in ["message 1", "was not called on rank 1"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn closing_waits_for_the_other_rank_until_the_deadline() {
    let [first, second] = both(None, |rank| {
        rank.collectives.set_deadline(Some(DEADLINE));
        if rank.rank == 1 {
            std::thread::sleep(DEADLINE * 3);
        }
        rank.collectives.close()
    });
    let text = first.expect_err("rank 1 comes too late").to_string();
    assert!(
        text.contains("not all ranks have ended the group within"),
        "{text}"
    );
    assert!(second.is_err());
}

#[test]
fn a_rank_closes_a_group_that_another_rank_drops() {
    let [closed, dropped] = both(None, |rank| {
        let array = OPERATIONS[0].1(&rank)?;
        let sum = rank.stream.download(&array)?.wait()?;
        if rank.rank == 0 {
            rank.collectives.close()?;
        }
        Ok::<_, Error>(sum)
    });
    assert_eq!(closed.unwrap(), [2, 4]);
    assert_eq!(dropped.unwrap(), [2, 4]);
}
