//! Unmodified programs in the upper half, under several limits and as another user.

mod common;

use common::{build, crossing, expect, loader, path_in, sites, stasis_load, system, threads};
use skip::skip;
use std::path::Path;
use std::process::Command;

#[test]
fn debian_programs() {
    expect(stasis_load(&["run", "/bin/ls", "-d", "/var"]), "/var");
    expect(
        stasis_load(&[
            "run",
            "bash",
            "-c",
            "x=$(echo a | tr a b); (exit 4); echo $x$?",
        ]),
        "b4",
    );
    let python = "import threading,subprocess,multiprocessing,os\n\
        t=[threading.Thread(target=os.getpid) for _ in range(4)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n\
        assert subprocess.run(['echo','hi'],capture_output=True).stdout==b'hi\\n'\n\
        assert multiprocessing.Pool(2).map(abs,[-1,-2])==[1,2]\n\
        print(os.path.basename(os.readlink('/proc/self/exe'))[:7])";
    expect(
        stasis_load(&["run", "/usr/bin/python3", "-c", python]),
        "python3",
    );
}

#[test]
fn patched_system_calls_are_as_the_kernels() {
    let program = sites();
    let run = ["run", program.to_str().expect("UTF-8")];
    expect(stasis_load(&run), "sites ok, patched");
    let mut command = stasis_load(&run);
    command.env("STASIS_SYSCALL_SITES", "off");
    expect(command, "sites ok, as they were");
}

#[test]
fn traced_program_is_not_patched() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let log = directory.path().join("log");
    let mut command = Command::new("strace");
    command
        .arg("-o")
        .arg(log)
        .arg(loader())
        .arg("run")
        .arg(build("calls.c", "gcc", &[]));
    if Command::new("strace").arg("-V").output().is_err() {
        skip!("strace is not installed");
    }
    expect(command, "as it was");
    let program = build("calls.c", "gcc", &[]);
    expect(
        stasis_load(&["run", program.to_str().expect("UTF-8")]),
        "patched",
    );
}

#[test]
fn exec_and_scripts_stay_in_the_upper_half() {
    let script = "exec -a other /bin/sh -c 'echo $0; tail -1 /proc/self/maps >/dev/null; \
                  head -1 /proc/$$/maps'";
    let out = expect(stasis_load(&["run", "/bin/bash", "-c", script]), "");
    assert!(out.starts_with("other\n10000000000-"), "{out}");
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("script");
    std::fs::write(&path, "#!/bin/sh -e\necho \"$1 $0\"\n").expect("write");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("chmod");
    let path = path.to_str().expect("UTF-8");
    expect(
        stasis_load(&["run", path, "first"]),
        &format!("first {path}"),
    );
}

fn programs() -> Vec<(Vec<String>, &'static str)> {
    let text = |p: &Path| vec![p.to_str().expect("UTF-8").to_owned()];
    let openmp = build("openmp.c", "gcc", &["-fopenmp"]);
    let fixed = build("openmp.c", "gcc", &["-fopenmp", "-no-pie"]);
    vec![
        (
            text(&build("exceptions.cpp", "g++", &["-pthread", "-ldl"])),
            "exceptions ok",
        ),
        (
            text(&build("fortran.f90", "gfortran", &["-std=gnu"])),
            "fortran ok 500500",
        ),
        (text(&openmp), "openmp ok"),
        (text(&fixed), "openmp ok"),
        (text(&system()), "other-name again, executed"),
        (text(&crossing()), "crossing ok, rebuilt 0"),
        (
            [text(&threads()), vec!["0.3".into(), "pipe".into()]].concat(),
            "threads ok",
        ),
        (
            vec!["/usr/bin/python3".into(), "-c".into(), "print(6*7)".into()],
            "42",
        ),
    ]
}

/// Runs all programs after `prefix`, a command that executes its arguments.
fn all_behind(prefix: &[&str], variable: Option<(&str, &str)>) {
    for (program, expected) in programs() {
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .args(prefix)
            .arg(loader())
            .arg("run")
            .args(program);
        command.envs(variable);
        expect(command, expected);
    }
}

#[test]
fn plain() {
    all_behind(&[], None);
}

#[test]
fn unlimited_stack() {
    all_behind(
        &["sh", "-c", "ulimit -s unlimited; exec \"$@\"", "sh"],
        None,
    );
}

#[test]
fn unlimited_stack_and_limited_address_space() {
    all_behind(
        &[
            "sh",
            "-c",
            "ulimit -s unlimited; ulimit -v 4000000; exec \"$@\"",
            "sh",
        ],
        None,
    );
}

#[test]
fn legacy_layout_and_no_randomisation() {
    all_behind(&["setarch", "-L"], None);
    all_behind(&["setarch", "-R"], None);
}

#[test]
fn without_wrfsbase() {
    all_behind(&[], Some(("STASIS_NO_FSGSBASE", "1")));
}

#[test]
fn without_syscall_user_dispatch() {
    all_behind(&[], Some(("STASIS_NO_SYSCALL_DISPATCH", "1")));
}

#[test]
fn as_an_ordinary_user() {
    let id = Command::new("id").arg("-u").output().expect("id");
    if id.stdout != b"0\n" {
        skip!("the other tests ran as an ordinary user");
    }
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    all_behind(&[&["setpriv"], &user[..]].concat(), None);
    let unlimited = ["sh", "-c", "ulimit -s unlimited; exec setpriv \"$@\"", "sh"];
    all_behind(&[&unlimited[..], &user[..]].concat(), None);
    // Without privileges the kernel takes no filter of a process that could gain some.
    let filter = Some(("STASIS_NO_SYSCALL_DISPATCH", "1"));
    all_behind(&[&["setpriv"], &user[..]].concat(), filter);
}

#[test]
fn the_dynamic_linker_gets_the_redirected_library() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = |name: &str| path_in(&directory, name);
    let compile = |name: &str, text: &str, more: &[&str]| {
        let source = path(&format!("{name}.c"));
        std::fs::write(&source, text).expect("write");
        let done = Command::new("gcc")
            .arg(&source)
            .args(more)
            .status()
            .expect("gcc");
        assert!(done.success());
    };
    let (library, other, program) = (path("libzz.so.7"), path("front.so"), path("program"));
    let soname = ["-shared", "-fPIC", "-Wl,-soname,libzz.so.7", "-o"];
    compile(
        "a",
        "int which(void) { return 1; }",
        &[&soname[..], &[&library]].concat(),
    );
    compile(
        "b",
        "int which(void) { return 2; }",
        &[&soname[..], &[&other]].concat(),
    );
    let text = "#include <stdio.h>\n#include <dlfcn.h>\nint which(void);\nint main(void) {\n\
        int (*again)(void) = dlsym(dlopen(\"libzz.so.7\", RTLD_NOW), \"which\");\n\
        FILE *f = fopen(\"libzz.so.7\", \"r\");\n\
        printf(\"%d %d %d\\n\", which(), again(), f != 0); }";
    compile("c", text, &[&library, "-o", &program]);
    let redirect = format!("libzz.so.7={other}");
    // The library is neither in the search path nor in the linker's directories, but is found.
    expect(
        stasis_load(&["run", "--redirect", &redirect, &program]),
        "2 2 0",
    );
}
