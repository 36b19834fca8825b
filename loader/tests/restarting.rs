//! Memory is written to a file, the process ends, and a fresh process continues.

mod common;

use common::{build, crossing, describe, expect, stasis_load, threads};
use std::path::Path;

struct Dump(tempfile::TempDir);

impl Dump {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary directory"))
    }
    fn path(&self, n: usize) -> String {
        self.0
            .path()
            .join(format!("dump{n}"))
            .to_str()
            .expect("UTF-8")
            .to_owned()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Runs, dumps after some milliseconds, and continues from the dump `links` times.
fn chain(program: &[&str], after: &str, links: usize, prefix: &[&str], expected: &str) {
    let dump = Dump::new();
    let behind = |args: &[&str]| {
        let mut command = std::process::Command::new("timeout");
        command
            .arg("60")
            .args(prefix)
            .arg(common::loader())
            .args(args);
        command.env("RUST_BACKTRACE", "0");
        command
    };
    let first = dump.path(0);
    let saved = behind(&[&["run", "--dump", &first, "--after", after], program].concat())
        .output()
        .expect("run");
    assert!(saved.status.success(), "{}", describe(&saved));
    for n in 1..links {
        let (old, new) = (dump.path(n - 1), dump.path(n));
        let again = behind(&["restore", "--dump", &new, "--after", "40", &old])
            .output()
            .expect("restore");
        assert!(again.status.success(), "link {n}: {}", describe(&again));
    }
    expect(behind(&["restore", &dump.path(links - 1)]), expected);
}

#[test]
fn dump_waits_for_the_program_to_start() {
    // A program without children, whose pipes could not be saved.
    let program = build("openmp.c", "gcc", &["-fopenmp"]);
    for _ in 0..10 {
        let dump = Dump::new();
        let first = dump.path(0);
        let run = ["run", "--at-once", "--dump", &first, text(&program), "100"];
        let saved = stasis_load(&run).output().expect("run");
        assert!(saved.status.success(), "{}", describe(&saved));
        expect(stasis_load(&["restore", &first]), "openmp ok");
    }
}

#[test]
fn one_thread_and_openmp() {
    let openmp = build("openmp.c", "gcc", &["-fopenmp"]);
    chain(&[text(&openmp), "3000"], "60", 3, &[], "openmp ok");
    let fixed = build("openmp.c", "gcc", &["-fopenmp", "-no-pie"]);
    chain(&[text(&fixed), "3000"], "60", 3, &[], "openmp ok");
}

#[test]
fn twelve_threads() {
    for after in ["30", "110", "290"] {
        chain(&[text(&threads()), "0.6"], after, 4, &[], "threads ok");
    }
}

#[test]
fn twelve_threads_with_an_unlimited_stack() {
    let unlimited = ["sh", "-c", "ulimit -s unlimited; exec \"$@\"", "sh"];
    chain(
        &[text(&threads()), "0.5"],
        "150",
        3,
        &unlimited,
        "threads ok",
    );
}

#[test]
fn threads_that_cross() {
    chain(
        &[text(&crossing()), "500"],
        "200",
        3,
        &[],
        "crossing ok, rebuilt 3",
    );
}

#[test]
fn clocks_and_handlers_that_interrupt_reading_them() {
    let clock = build("clock.c", "gcc", &[]);
    for after in ["35", "170", "420"] {
        chain(&[text(&clock)], after, 4, &[], "clock ok");
    }
}

#[test]
fn files_cwd_umask_and_signal_handlers() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let dump = Dump::new();
    let script = "import os,signal,sys,time\n\
        os.chdir(sys.argv[1]); os.umask(0o27)\n\
        hits=[]; signal.signal(signal.SIGALRM, lambda *a: hits.append(1))\n\
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n\
        out=open('out','w'); twin=os.dup(out.fileno()); log=open('log','a')\n\
        table=open('/etc/passwd'); head=table.readline()\n\
        for i in range(40):\n    os.write(twin, b'%d\\n' % i); log.write('x'); log.flush()\n    \
        while i == 20 and not os.path.exists(sys.argv[2]): open('ready', 'w').close(); time.sleep(0.001)\n\
        n=len(hits); time.sleep(0.2); signal.setitimer(signal.ITIMER_REAL, 0)\n\
        rest=table.read(); whole=open('/etc/passwd').read()\n\
        open('new','w')\n\
        print(open('out').read().split()==[str(i) for i in range(40)], len(open('log').read()), \
        oct(os.stat('new').st_mode&0o777), os.getcwd()==os.path.realpath(sys.argv[1]), len(hits)>n, head+rest==whole)";
    let path = dump.path(0);
    let place = text(directory.path());
    let ready = directory.path().join("ready");
    let python = ["/usr/bin/python3", "-c", script, place, &path];
    let arguments = [
        &["run", "--dump", &path, "--when", text(&ready), "--go-on"],
        &python[..],
    ]
    .concat();
    let expected = "True 40 0o640 True True True";
    // The job continues and writes more; the restart truncates the file and the program writes it again.
    expect(stasis_load(&arguments), expected);
    expect(stasis_load(&["restore", &path]), expected);
}

#[test]
fn missing_or_shortened_file_is_reported() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let dump = Dump::new();
    let file = directory.path().join("data");
    let script = "import sys,time\nf=open(sys.argv[1],'w'); f.write('12345'); f.flush(); \
        open(sys.argv[2],'w'); time.sleep(30)";
    let path = dump.path(0);
    let ready = directory.path().join("ready");
    let python = ["/usr/bin/python3", "-c", script, text(&file), text(&ready)];
    let arguments = [
        &["run", "--dump", &path, "--when", text(&ready)],
        &python[..],
    ]
    .concat();
    let saved = stasis_load(&arguments).output().expect("run");
    assert!(saved.status.success(), "{}", describe(&saved));
    let refused = |expected: &str| {
        let output = stasis_load(&["restore", &path]).output().expect("restore");
        assert!(
            describe(&output).contains(expected),
            "{}",
            describe(&output)
        );
        assert_eq!(output.status.code(), Some(1));
    };
    std::fs::write(&file, "123").expect("shorten");
    refused("has 3 bytes but had 5 at the checkpoint");
    std::fs::remove_file(&file).expect("remove");
    refused(&format!("cannot reopen {}", file.display()));
}
