//! Programs of several processes: worlds, and collectives between processes.
//!
//! A test starts this program again for each rank. Such a process runs only the test `inner_rank`,
//! which calls the rank's program and prints its result.

mod collectives;
mod differing;
mod faults;
mod killed;
mod prelude;
mod processes;
mod threads;
mod worlds;

use std::env;

use processes::PROGRAM;

#[test]
#[ignore = "a rank of the other tests"]
fn inner_rank() {
    println!();
    let name = env::var(PROGRAM).expect("the parent sets it");
    let result = match name.as_str() {
        "meet" => worlds::program(),
        "everything" => collectives::program(),
        "kill 0" => killed::program(0),
        "kill 1" => killed::program(1),
        "differ" => differing::program(),
        _ => panic!("there is no program {name}"),
    };
    match result {
        Ok(text) => println!("result {text}"),
        Err(error) => println!("result {error}"),
    }
}
