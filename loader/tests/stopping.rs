//! Threads are stopped at arbitrary moments, hundreds of times, and resumed.

mod common;

use common::{build, crossing, expect, sites, stasis_load, system, threads};
use std::path::Path;

fn run(options: &[&str], program: &Path, args: &[&str], expected: &str) {
    let program = program.to_str().expect("UTF-8");
    expect(
        stasis_load(&[&["run"], options, &[program], args].concat()),
        expected,
    );
}

#[test]
fn twelve_threads() {
    run(
        &["--stops", "300", "--every", "2"],
        &threads(),
        &["1.5"],
        "threads ok",
    );
}

#[test]
fn twelve_threads_with_signals_and_a_pipe() {
    run(
        &["--stops", "300", "--every", "2"],
        &threads(),
        &["1.5", "pipe"],
        "threads ok",
    );
}

#[test]
fn wrappers_and_jobs_on_the_initial_thread() {
    let stops = ["--stops", "150", "--every", "2", "--jobs"];
    run(&stops, &crossing(), &["900"], "crossing ok, rebuilt 0");
    let program = crossing();
    let args = [
        &["run"],
        &stops[..],
        &[program.to_str().expect("UTF-8"), "900"],
    ]
    .concat();
    let mut command = stasis_load(&args);
    command.env("STASIS_NO_FSGSBASE", "1");
    expect(command, "crossing ok, rebuilt 0");
}

#[test]
fn calls_interrupted_by_handlers() {
    let program = build("interrupted.c", "gcc", &["-pthread"]);
    let stops = ["--stops", "1000", "--every", "1"];
    run(&stops, &program, &[], "interrupted ok");
    run(&[], &program, &[], "interrupted ok");
}

#[test]
fn patched_calls_are_taken_back_at_each_stop() {
    let stops = ["--stops", "300", "--every", "2"];
    run(&stops, &sites(), &["3"], "sites ok, with stops");
}

#[test]
fn during_emulated_calls() {
    run(
        &["--stops", "100", "--every", "1"],
        &system(),
        &[],
        "other-name again, executed",
    );
}
