//! Programs that cannot be loaded and processes that cannot be saved get an error with the reason.

mod common;

use common::{build, describe, loader, stasis_load};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn refused(mut command: Command, expected: &str) {
    let output = command.output().expect("run");
    assert!(!output.status.success(), "{command:?}");
    let text = describe(&output);
    assert!(text.contains(expected), "{command:?}: {text}");
    assert!(
        output.status.code().is_some(),
        "{command:?} died of a signal: {text}"
    );
}

#[test]
fn files_that_are_not_programs() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let file = |name: &str, bytes: &[u8], mode: u32| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).expect("write");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
        path.to_str().expect("UTF-8").to_owned()
    };
    let elf = std::fs::read("/bin/true").expect("/bin/true");
    let changed = |at: usize, value: u8| {
        let mut copy = elf.clone();
        copy[at] = value;
        copy
    };
    for (path, expected) in [
        (
            file("text", b"hello\n", 0o755),
            "neither an ELF program nor",
        ),
        (file("empty", b"", 0o755), "neither an ELF program nor"),
        (file("mode", &elf, 0o644), "is not executable"),
        (file("bits32", &changed(4, 1), 0o755), "32-bit program"),
        (
            file("arm", &changed(18, 183), 0o755),
            "another machine (ELF machine 183)",
        ),
        (file("short", &elf[..40], 0o755), "damaged ELF file"),
        (file("cut", &elf[..200], 0o755), "damaged ELF file"),
        (file("phnum", &changed(56, 0), 0o755), "damaged ELF file"),
        (
            file(
                "loop",
                format!("#!{}/loop\n", directory.path().display()).as_bytes(),
                0o755,
            ),
            "too many levels",
        ),
        ("/nonexistent".to_owned(), "cannot read the program"),
        ("no-such-program-anywhere".to_owned(), "in PATH"),
        ("/tmp".to_owned(), "/tmp"),
    ] {
        refused(stasis_load(&["run", &path]), expected);
    }
    let fixed = build("openmp.c", "gcc", &["-fopenmp", "-static"]);
    refused(
        stasis_load(&["run", fixed.to_str().expect("UTF-8")]),
        "statically linked",
    );
}

#[test]
fn a_kernel_without_a_trap() {
    // A seccomp filter that answers prctl(59, ...) and seccomp(...) with EINVAL simulates a kernel without both.
    let script = "import ctypes,struct,os,sys\n\
        f=[(0x20,0,0,0),(0x15,3,0,317),(0x15,0,3,157),(0x20,0,0,16),(0x15,0,1,59),(0x06,0,0,0x50016),(0x06,0,0,0x7fff0000)]\n\
        b=ctypes.create_string_buffer(b''.join(struct.pack('HBBI',*i) for i in f))\n\
        p=ctypes.create_string_buffer(struct.pack('HxxxxxxQ',len(f),ctypes.addressof(b)))\n\
        c=ctypes.CDLL(None); c.prctl(38,1,0,0,0); assert c.prctl(22,2,p,0,0)==0\n\
        os.execv(sys.argv[1],sys.argv[1:])";
    let mut command = Command::new("/usr/bin/python3");
    command
        .args(["-c", script])
        .arg(loader())
        .args(["run", "/bin/true"]);
    refused(command, "takes no seccomp filter");
}

#[test]
fn descriptors_that_cannot_be_saved() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let [dump, ready] = ["dump", "ready"].map(|name| directory.path().join(name));
    let [dump, ready] = [&dump, &ready].map(|path| path.to_str().expect("UTF-8"));
    for (open, expected) in [
        (
            "s = socket.socket()",
            "file descriptor 3 is a network socket",
        ),
        (
            "m, s = os.openpty()",
            "file descriptor 3 is the device /dev/ptmx",
        ),
        (
            "p = os.pidfd_open(1)",
            "file descriptor 3 is anon_inode:[pidfd]",
        ),
    ] {
        let script = format!("import os,socket,time\n{open}\nos.mkdir('{ready}')\ntime.sleep(20)");
        let args = [
            "run",
            "--dump",
            dump,
            "--when",
            ready,
            "/usr/bin/python3",
            "-c",
            &script,
        ];
        refused(stasis_load(&args), expected);
        std::fs::remove_dir(ready).expect("what the program has made");
    }
}
