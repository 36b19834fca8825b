//! Bad input: a clear message, an exit code that is not 0, and nothing started or restored.

use super::directives::{collect, Example};
use super::loader::NOBODY;
use super::programs::command_line;
use super::{Case, Outcome};
use crate::job::{self, Finished, Job};
use crate::mpi::Mpi;
use crate::{paths, stasis};
use anyhow::{ensure, Context, Result};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{chown, FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut cases = programs();
    cases.extend(directories());
    cases.extend(commands());
    cases.extend(images());
    cases.extend(files());
    cases
}

fn case(name: &str, body: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Case {
    Case::new(format!("bad-input/{name}"), move |_, dir| body(dir).into())
}

fn as_root(name: &str, body: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Case {
    let name = format!("bad-input/{name}");
    Case::as_root(name, "needs root to set the scene", body)
}

/// The command line's exit codes (`stasis --help`).
pub const DIRECTORY: i32 = 1;
pub const USAGE: i32 = 2;
pub const CANNOT_SERVE: i32 = 3;
pub const CHECKPOINT: i32 = 4;
pub const IMAGE: i32 = 5;
const NO_JOB: i32 = 6;
pub const UNFINISHED: i32 = 7;

/// It must have failed with this code, and its message must hold one of each group of words.
pub fn refused(finished: &Finished, expected: i32, words: &[&[&str]]) -> Result<()> {
    let text = format!("{}{}", finished.stdout, finished.stderr);
    let lower = text.to_lowercase();
    let code = finished.status.code();
    ensure!(
        code == Some(expected),
        "ends with {}, should end with code {expected}\n{}",
        finished.status,
        job::tail(&text, 10)
    );
    ensure!(
        !lower.contains("panicked"),
        "it panicked\n{}",
        job::tail(&text, 10)
    );
    for group in words {
        ensure!(
            group
                .iter()
                .any(|word| lower.contains(&word.to_lowercase())),
            "the message says none of {group:?}:\n{}",
            job::tail(&text, 10)
        );
    }
    Ok(())
}

fn launch_alone(ckpt: &Path, program: &[&str]) -> Command {
    let mut command = stasis::command(["launch", "--ckpt-dir"]);
    command.arg(ckpt).args(program);
    command
}

fn refuse_program(dir: &Path, program: &Path, words: &[&[&str]]) -> Result<()> {
    let command = launch_alone(&dir.join("ck"), &[&program.to_string_lossy()]);
    refused(
        &job::run(command, dir, "launch", LIMIT)?,
        CANNOT_SERVE,
        words,
    )
}

fn executable(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    Ok(())
}

pub fn compile(dir: &Path, compiler: &str, source: &str, flags: &[&str]) -> Result<PathBuf> {
    let binary = dir.join(source.trim_end_matches(".c"));
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(&binary);
    command.arg(paths::examples().join("tools").join(source));
    job::run(command, dir, "compile", LIMIT)?.expect_success(compiler)?;
    Ok(binary)
}

/// The command on a kernel without what `examples/tools/older_kernel.c` calls so.
pub fn on_older_kernel(without: &str, command: &Command, dir: &Path) -> Result<Command> {
    let mut older = Command::new(compile(dir, "gcc", "older_kernel.c", &[])?);
    older.arg(without).arg(command.get_program());
    older.args(command.get_args());
    older.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    Ok(older)
}

fn programs() -> Vec<Case> {
    let mut cases = vec![
        case("no-such-program", |dir| {
            refuse_program(
                dir,
                &dir.join("nowhere"),
                &[&["nowhere"], &["no such file", "not found"]],
            )
        }),
        case("not-an-elf", |dir| {
            let file = dir.join("text");
            executable(&file, b"just a text\n")?;
            refuse_program(dir, &file, &[&["text"], &["ELF"]])
        }),
        case("truncated-elf", |dir| {
            let file = dir.join("stump");
            executable(&file, &fs::read("/bin/ls")?[..100])?;
            refuse_program(dir, &file, &[&["stump"]])
        }),
        case("32-bit", |dir| {
            let file = dir.join("small");
            // An ELF header of a 32-bit x86 executable; nobody may look any further.
            let mut header = b"\x7fELF\x01\x01\x01".to_vec();
            header.resize(16, 0);
            header.extend([2, 0, 3, 0, 1, 0, 0, 0]);
            header.resize(84, 0);
            executable(&file, &header)?;
            refuse_program(dir, &file, &[&["32-bit", "32 bit"]])
        }),
        case("static-mpi", |dir| {
            let program = compile(dir, "gcc", "static_mpi.c", &["-static"])?;
            refuse_program(dir, &program, &[&["static"], &["MPI"]])
        }),
        case("no-syscall-user-dispatch", |dir| {
            let mut launch = Command::new(paths::stasis());
            launch.args(["launch", "--ckpt-dir"]);
            launch.arg(dir.join("ck")).arg("/bin/true");
            let command = on_older_kernel("sud", &launch, dir)?;
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(
                &finished,
                CANNOT_SERVE,
                &[&["Syscall User Dispatch"], &["5.11", "kernel"]],
            )
        }),
    ];
    for (mpi, function) in [
        (Mpi::OpenMpi, "MPIX_Query_cuda_support"),
        (Mpi::Mpich, "MPIX_Comm_failure_ack"),
    ] {
        cases.push(case(&format!("two-libraries-{mpi}"), move |dir| {
            let program = compile(dir, &mpi.compiler("c"), "imports.c", &[])?;
            let other = mpi.other().compiler("c");
            let library = compile(dir, &other, "profiler.c", &["-shared", "-fPIC"])?;
            let mut command = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
            command.arg(program).env("LD_PRELOAD", library);
            refused(
                &job::run(command, dir, "launch", LIMIT)?,
                CANNOT_SERVE,
                &[&["libmpi.so.40"], &["libmpich.so.12"], &["LD_PRELOAD"]],
            )
        }));
        cases.push(case(&format!("doctor-{mpi}"), move |dir| {
            let program = compile(dir, &mpi.compiler("c"), "unsupported.c", &[])?;
            let doctor = stasis::command(["doctor".as_ref(), program.as_os_str()]);
            let finished = job::run(doctor, dir, "doctor", LIMIT)?;
            refused(&finished, CANNOT_SERVE, &[&["BAD"], &[function]])?;
            let mut doctor = stasis::command(["doctor", "--ckpt-dir"]);
            doctor.arg(dir.join("doctor.out"));
            let finished = job::run(doctor, dir, "doctor-file", LIMIT)?;
            refused(
                &finished,
                CANNOT_SERVE,
                &[&["BAD"], &["is not a directory"]],
            )?;
            let program = compile(dir, &mpi.compiler("c"), "imports.c", &[])?;
            let mut doctor = stasis::command(["doctor", "--symbols"]);
            doctor.arg(program);
            let finished = job::run(doctor, dir, "doctor-symbols", LIMIT)?;
            let said = finished.expect_success("stasis doctor")?.stdout;
            let front = format!("the front for {mpi}");
            let note = "note  MPI_Comm_spawn";
            let place = "1 MiB is durable after";
            for words in [&front, "all 3 symbols", note, "has   MPI_Init ", place] {
                ensure!(said.contains(words), "does not say '{words}':\n{said}");
            }
            Ok(())
        }));
        cases.push(case(&format!("dynamic-processes-{mpi}"), move |dir| {
            dynamic_processes(dir, mpi)
        }));
        cases.push(case(&format!("unsupported-function-{mpi}"), move |dir| {
            let program = compile(dir, &mpi.compiler("c"), "unsupported.c", &[])?;
            let mut command = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
            command.arg(program);
            refused(
                &job::run(command, dir, "launch", LIMIT)?,
                CANNOT_SERVE,
                &[&[function]],
            )
        }));
    }
    cases
}

/// What would start or reach other processes answers with an error that says what to do, and ends the
/// job only where errors do.
fn dynamic_processes(dir: &Path, mpi: Mpi) -> Result<()> {
    const REFUSED: [&str; 5] = [
        "MPI_Comm_spawn is not",
        "MPI_Comm_spawn_multiple is not",
        "MPI_Comm_accept is not",
        "MPI_Comm_connect is not",
        "MPI_Comm_join is not",
    ];
    let program = compile(dir, &mpi.compiler("c"), "dynamic.c", &[])?;
    let launch = |variant: &str| {
        let mut command = stasis::launch(mpi.other(), RANKS, &dir.join("ck"), dir);
        command.arg(&program).arg(variant);
        job::run(command, dir, variant, LIMIT)
    };
    let returned = launch("returned")?;
    let said = returned.stderr.clone();
    returned.expect_success("a job whose errors are returned")?;
    for words in REFUSED {
        let line = said.lines().find(|line| line.contains(words));
        ensure!(
            line.is_some_and(|line| line.contains("start all ranks by mpirun")),
            "'{words}' is not said with advice:\n{said}"
        );
    }
    let fatal = launch("fatal")?;
    ensure!(!fatal.status.success(), "the error was not fatal");
    ensure!(
        fatal.stderr.contains(REFUSED[0]) && !fatal.stderr.contains(REFUSED[1]),
        "says\n{}",
        fatal.stderr
    );
    Ok(())
}

fn directories() -> Vec<Case> {
    vec![
        as_root("directory-not-writable", |dir| {
            let closed = dir.join("closed");
            fs::create_dir(&closed)?;
            let mut command = launch_alone(&closed.join("ck"), &["/bin/true"]);
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(
                &finished,
                DIRECTORY,
                &[&["closed"], &["permission", "writable", "write"]],
            )
        }),
        as_root("directory-of-someone-else", |dir| {
            let theirs = dir.join("theirs");
            fs::create_dir(&theirs)?;
            fs::set_permissions(&theirs, Permissions::from_mode(0o700))?;
            chown(&theirs, Some(NOBODY), Some(NOBODY))?;
            let command = launch_alone(&theirs, &["/bin/true"]);
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(&finished, DIRECTORY, &[&["theirs"], &["own", "belong"]])
        }),
        case("directory-open-to-others", |dir| {
            let open = dir.join("open");
            fs::create_dir(&open)?;
            fs::set_permissions(&open, Permissions::from_mode(0o777))?;
            let command = launch_alone(&open, &["/bin/true"]);
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(
                &finished,
                DIRECTORY,
                &[&["open"], &["write", "writable", "others"]],
            )
        }),
        Case::new("bad-input/directory-full", |_, dir| {
            in_full_directory(dir, checkpoint_into_full)
        }),
        Case::new("bad-input/directory-without-inodes", |_, dir| {
            // For itself, the job file, the set and one image.
            in_small_directory(dir, "size=64m,nr_inodes=4", |dir, ckpt| {
                checkpoint_fails(dir, ckpt, &["no inodes are left"])
            })
        }),
    ]
}

/// Runs a case whose checkpoint directory, `ck` in its folder, is a file system without room for an image.
pub fn in_full_directory(dir: &Path, body: fn(&Path, &Path) -> Result<()>) -> Outcome {
    in_small_directory(dir, "size=256k", body)
}

/// The same with a file system in memory that is limited so.
pub fn in_small_directory(
    dir: &Path,
    limit: &str,
    body: fn(&Path, &Path) -> Result<()>,
) -> Outcome {
    let ckpt = dir.join("ck");
    match mount_small(&ckpt, limit) {
        Ok(true) => {
            let result = body(dir, &ckpt);
            let unmounted = Command::new("umount").arg("-l").arg(&ckpt).output();
            result.and(unmounted.map(drop).map_err(Into::into)).into()
        }
        Ok(false) => Outcome::Skipped("cannot mount a small file system here".into()),
        Err(error) => Err(error).into(),
    }
}

/// Whether that was possible.
fn mount_small(ckpt: &Path, limit: &str) -> Result<bool> {
    fs::create_dir(ckpt)?;
    fs::set_permissions(ckpt, Permissions::from_mode(0o700))?;
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("{limit},mode=0700"), "tmpfs"])
        .arg(ckpt)
        .output()?;
    Ok(mount.status.success())
}

/// A checkpoint into a full file system fails and says so; the job goes on to its right end.
fn checkpoint_into_full(dir: &Path, ckpt: &Path) -> Result<()> {
    checkpoint_fails(dir, ckpt, &["space", "full"])
}

/// A checkpoint fails with one of these words; the job goes on to its right end.
fn checkpoint_fails(dir: &Path, ckpt: &Path, words: &[&str]) -> Result<()> {
    let mut job = start_held(dir, ckpt, Mpi::OpenMpi)?;
    let finished = job::run(stasis::checkpoint(ckpt), dir, "checkpoint", LIMIT)?;
    refused(&finished, CHECKPOINT, &[words])?;
    fs::write(dir.join("go"), "")?;
    let status = job.wait(Instant::now() + LIMIT)?;
    ensure!(
        status.is_some_and(|status| status.success()),
        "the job did not survive the failed checkpoint: {status:?}\n{}",
        job::tail(&job::read_text(&job.stderr), 10)
    );
    Ok(())
}

fn commands() -> Vec<Case> {
    vec![
        case("checkpoint-without-job", |dir| {
            let finished = job::run(
                stasis::checkpoint(&dir.join("ck")),
                dir,
                "checkpoint",
                LIMIT,
            )?;
            refused(&finished, NO_JOB, &[&["ck"], &["job", "no such"]])
        }),
        case("checkpoint-of-dead-job", |dir| {
            let ckpt = copy_of_set(dir)?;
            let finished = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
            refused(&finished, NO_JOB, &[&["job", "coordinator"]])
        }),
        case("checkpoint-without-mpi-init", never_initialised),
        case("unknown-option", |dir| {
            let command = stasis::command(["launch", "--frob", "/bin/true"]);
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(&finished, USAGE, &[&["no option --frob"], &["--help"]])
        }),
        case("launcher-behind-stasis", launcher_behind),
        case("drain-of-nothing", |dir| {
            let (ckpt, ring) = (copy_of_set(dir)?, dir.join("empty"));
            fs::create_dir(&ring)?;
            fs::set_permissions(&ring, Permissions::from_mode(0o700))?;
            for (at, words) in [(ckpt, "nothing to drain"), (ring, "no checkpoint")] {
                let mut command = stasis::command(["drain"]);
                command.arg(at);
                let said = job::run(command, dir, "drain", LIMIT)?.expect_success("drain")?;
                ensure!(said.stdout.contains(words), "says {}", said.stdout);
            }
            Ok(())
        }),
        case("restart-from-nothing", |dir| {
            let finished = restart(dir, &dir.join("ck"), RANKS)?;
            refused(&finished, IMAGE, &[&["ck"]])
        }),
        case("restart-with-1-rank", |dir| {
            let finished = restart(dir, &copy_of_set(dir)?, 1)?;
            refused(&finished, IMAGE, &[&["2 ranks", "2 processes", "-n 2"]])
        }),
        case("restart-with-3-ranks", |dir| {
            let finished = restart(dir, &copy_of_set(dir)?, 3)?;
            refused(&finished, IMAGE, &[&["2 ranks", "2 processes", "-n 2"]])
        }),
        case("restart-with-changed-file", |dir| {
            with_changed_file(dir, |file| file.write_all_at(&[0], 5000))
        }),
        case("restart-with-shorter-file", |dir| {
            with_changed_file(dir, |file| file.set_len(8191))
        }),
    ]
}

/// A job of several ranks that never calls MPI_Init: who asks for a checkpoint is told so, and what the program has
/// started instead, and is let go when his patience ends.
fn never_initialised(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut command = stasis::launch(Mpi::Mpich, RANKS, &ckpt, dir);
    command.args(["/bin/bash", "-c", "sleep 600; true"]);
    let mut job = Job::start(command, dir, "launch")?;
    let reached = stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT);
    job.explain(reached, dir)?;
    let mut command = stasis::checkpoint(&ckpt);
    command.args(["--patience", "7"]);
    let finished = job::run(command, dir, "checkpoint", LIMIT)?;
    let words: &[&[&str]] = &[
        &["still not called MPI_Init"],
        &["has started another program, sleep"],
        &["within 7 s; the job runs on"],
    ];
    refused(&finished, CHECKPOINT, words)?;
    job.kill()
}

/// The launcher of ranks stands behind stasis, as other checkpointers want it: the right line is told.
fn launcher_behind(dir: &Path) -> Result<()> {
    for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
        let launcher = mpi.launcher();
        let mut command = stasis::command(["launch", "--ckpt-dir", "ck"]);
        command.args([&*launcher, "-n", "2", "/bin/true", "x"]);
        command.current_dir(dir);
        let finished = job::run(command, dir, "launch", LIMIT)?;
        let line = format!("{launcher} -n 2 stasis launch --ckpt-dir ck /bin/true x");
        refused(&finished, USAGE, &[&[&line]])?;
    }
    Ok(())
}

/// A restart is refused, and touches no file, while one that was open has another content; it says
/// so and goes on if that is asked for.
fn with_changed_file(dir: &Path, change: fn(&fs::File) -> io::Result<()>) -> Result<()> {
    let (ckpt, name) = (dir.join("ck"), "table.1");
    let mut job = start(
        &example("files", "files/changed")?,
        dir,
        &ckpt,
        Mpi::OpenMpi,
    )?;
    take_checkpoint(&mut job, dir, &ckpt)?;
    change(&fs::OpenOptions::new().write(true).open(dir.join(name))?)?;
    let steps = || [0, 1].map(|rank| fs::read(dir.join(format!("steps.{rank}"))).ok());
    let written = steps();
    let named: &[&[&str]] = &[&[name], &["at the checkpoint"], &["--changed-files warn"]];
    refused(&restart(dir, &ckpt, RANKS)?, IMAGE, named)?;
    ensure!(steps() == written, "a refused restart has changed files");
    fs::write(dir.join("go"), "")?;
    for (word, says) in [("warn", true), ("ignore", false)] {
        let mut command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt, dir);
        command.args(["--changed-files", word]);
        let finished = job::run(command, dir, word, LIMIT)?;
        let finished = finished.expect_success(word)?;
        ensure!(
            finished.stderr.contains(name) == says,
            "with {word} it says\n{}",
            finished.stderr
        );
        ensure!(
            !finished.stderr.contains("bring the file back"),
            "with {word} it says what a refusal says:\n{}",
            finished.stderr
        );
    }
    Ok(())
}

fn restart(dir: &Path, ckpt: &Path, ranks: usize) -> Result<Finished> {
    job::run(
        stasis::restart(Mpi::OpenMpi, ranks, ckpt, dir),
        dir,
        "restart",
        LIMIT,
    )
}

/// What is done to a whole set, and the words that must name it.
type Damage = (
    &'static str,
    fn(&Path) -> Result<()>,
    &'static [&'static [&'static str]],
);

const DAMAGES: &[Damage] = &[
    (
        "missing-rank",
        |set| Ok(fs::remove_file(set.join("rank-1.img"))?),
        &[&["rank 1"], &["missing"]],
    ),
    (
        "truncated",
        truncate,
        &[&["rank 1", "rank-1"], &["bytes long", "truncated"]],
    ),
    (
        "flipped-byte-in-memory",
        |set| flip_at(set, 4096 + 8),
        &[&["rank 1", "rank-1"], &["checksum", "digest"]],
    ),
    (
        "flipped-byte-in-the-middle",
        |set| flip(set, 0.6),
        &[&["rank 1", "rank-1"]],
    ),
    (
        "flipped-byte-in-header",
        |set| flip_at(set, 0),
        &[
            &["rank 1", "rank-1"],
            &["checksum", "not a Stasis image", "digest"],
        ],
    ),
    (
        "flipped-byte-at-end",
        |set| flip(set, 1.0),
        &[&["rank 1", "rank-1"], &["checksum", "digest", "trailer"]],
    ),
    (
        "empty-image",
        |set| Ok(fs::write(set.join("rank-1.img"), "")?),
        &[&["rank 1", "rank-1"]],
    ),
    (
        "swapped-ranks",
        swap,
        &[&["rank"], &["swapped", "holds", "digest"]],
    ),
    ("no-manifest", no_manifest, &[&["manifest", "whole"]]),
    ("damaged-manifest", damage_manifest, &[&["manifest"]]),
    (
        "readable-by-others-to-write",
        open_image,
        &[&["rank-1"], &["write", "safe"]],
    ),
];

fn images() -> Vec<Case> {
    let mut cases: Vec<Case> = DAMAGES
        .iter()
        .map(|(name, damage, words)| {
            case(&format!("image-{name}"), move |dir| {
                let ckpt = copy_of_set(dir)?;
                damage(&newest_set(&ckpt)?)?;
                let restarted = restart(dir, &ckpt, RANKS)?;
                refused(&restarted, IMAGE, words).context("restart")?;
                ensure!(
                    !restarted.stderr.contains("continuing"),
                    "it is said to be continued before it is verified"
                );
                refused(&stasis::verify(&ckpt, dir, LIMIT)?, IMAGE, words).context("verify")
            })
        })
        .collect();
    cases.push(case("image-that-keeps-failing", keeps_failing));
    cases.push(case("seal", seal));
    cases.push(case("image-of-another-set", |dir| {
        let ckpt = copy_of_set(dir)?;
        let other = dir.join("other");
        fs::create_dir(&other)?;
        let mut job = start_held(&other, &other.join("ck"), Mpi::OpenMpi)?;
        take_checkpoint(&mut job, &other, &other.join("ck"))?;
        let from = newest_set(&other.join("ck"))?.join("rank-1.img");
        fs::copy(from, newest_set(&ckpt)?.join("rank-1.img"))?;
        let words: &[&[&str]] = &[&["rank 1", "rank-1"], &["another set", "set id", "digest"]];
        refused(&restart(dir, &ckpt, RANKS)?, IMAGE, words).context("restart")?;
        refused(&stasis::verify(&ckpt, dir, LIMIT)?, IMAGE, words).context("verify")
    }));
    cases
}

/// A set from which three restarts have not come back is taken only if it is named; and then one that
/// does is remembered.
fn keeps_failing(dir: &Path) -> Result<()> {
    let ckpt = copy_of_set(dir)?;
    let set = newest_set(&ckpt)?;
    let attempts = set.join("attempts");
    fs::write(&attempts, "3")?;
    refused(
        &restart(dir, &ckpt, RANKS)?,
        IMAGE,
        &[&["3 restarts"], &["--set ckpt-1"]],
    )?;
    let mut command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt, dir);
    command.args(["--set", "ckpt-1"]);
    let mut job = Job::start(command, dir, "named")?;
    let back = job.until(
        "it was noted that the job is back",
        Instant::now() + LIMIT,
        || !attempts.exists(),
    );
    job.explain(back, dir)?;
    job.kill()
}

/// Sealed sets are taken with their key alone. A change that no checksum sees is found.
fn seal(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let key = |name: &str, mode: u32| -> Result<PathBuf> {
        let path = dir.join(name);
        fs::write(&path, name.repeat(8))?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(path)
    };
    let (ours, other, open) = (
        key("ours", 0o600)?,
        key("other", 0o600)?,
        key("open", 0o640)?,
    );

    let mut command = stasis::launch(Mpi::OpenMpi, RANKS, &ckpt, dir);
    command.arg("--key-file").arg(&open).arg("/bin/true");
    let readable: &[&[&str]] = &[&["key file"], &["others can read"], &["chmod 600"]];
    refused(&job::run(command, dir, "open", LIMIT)?, USAGE, readable)?;

    let held = example("probes", "probes/peers.p10_pending_irecv")?;
    let mut command = stasis::launch(Mpi::OpenMpi, RANKS, &ckpt, dir);
    command.arg("--key-file").arg(&ours);
    let mut job = start_by(command, &held, dir, Mpi::OpenMpi)?;
    for name in ["first", "second"] {
        job::run(stasis::checkpoint(&ckpt), dir, name, LIMIT)?.expect_success("checkpoint")?;
    }
    job.kill()?;
    let image = ckpt.join("ckpt-2/rank-1.img");
    let sound = fs::read(&image)?;
    let mut forged = sound.clone();
    // A multiple of CRC-32's polynomial: the checksum stays as it is.
    let polynomial = (1 | 0xedb8_8320_u64 << 1).to_le_bytes();
    for (byte, add) in forged[4096..].iter_mut().zip(&polynomial[..5]) {
        *byte ^= add;
    }
    fs::write(&image, forged)?;
    let again = |key: Option<&Path>, set: &str, name: &str| {
        let mut command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt.join(set), dir);
        command.env("STASIS_TEST_GO", dir.join("go"));
        if let Some(key) = key {
            command.env("STASIS_KEY_FILE", key);
        }
        job::run(command, dir, name, LIMIT)
    };
    let changed: &[&[&str]] = &[&["rank-1"], &["does not match its digest"], &["ck/ckpt-1"]];
    refused(&again(Some(&ours), "ckpt-2", "changed")?, IMAGE, changed)?;
    fs::write(&image, sound)?;
    let wanted: &[&[&str]] = &[&["ckpt-2"], &["is sealed with key"], &["--key-file"]];
    refused(&again(None, "ckpt-2", "wanted")?, IMAGE, wanted)?;
    refused(&stasis::verify(&ckpt, dir, LIMIT)?, IMAGE, wanted)?;
    let wrong: &[&[&str]] = &[&["ckpt-2"], &["not with the key that was given"]];
    refused(&again(Some(&other), "ckpt-2", "wrong")?, IMAGE, wrong)?;
    fs::write(dir.join("go"), "")?;
    again(Some(&ours), "", "right")?.expect_success("a restart with the key")?;
    Ok(())
}

/// A restart needs the files that the job had open with MPI_File_open.
fn files() -> Vec<Case> {
    let of = |name: &str, damage: fn(&Path) -> Result<()>, words: &'static [&'static str]| {
        case(name, move |dir| {
            let ckpt = dir.join("ck");
            let pending = example("io", "io/pending")?;
            let mut job = start(&pending, dir, &ckpt, Mpi::OpenMpi)?;
            take_checkpoint(&mut job, dir, &ckpt)?;
            damage(&dir.join("pending.dat"))?;
            let said: Vec<_> = words.iter().map(core::slice::from_ref).collect();
            refused(&restart(dir, &ckpt, RANKS)?, IMAGE, &said)
        })
    };
    vec![
        of(
            "restart-without-file",
            |path| Ok(fs::remove_file(path)?),
            &["pending.dat", "no such file", "put it back"],
        ),
        of(
            "restart-with-shorter-file",
            |path| Ok(fs::write(path, "short")?),
            &["pending.dat", "with 3000000 bytes and has 5 now"],
        ),
    ]
}

fn truncate(set: &Path) -> Result<()> {
    let path = set.join("rank-1.img");
    let length = fs::metadata(&path)?.len();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)?
        .set_len(length * 2 / 3)?;
    Ok(())
}

/// Memory starts at 4096 in an image (docs/image-format.md).
fn flip_at(set: &Path, at: usize) -> Result<()> {
    let path = set.join("rank-1.img");
    let mut bytes = fs::read(&path)?;
    bytes[at] ^= 0x10;
    fs::write(&path, bytes)?;
    Ok(())
}

fn flip(set: &Path, place: f64) -> Result<()> {
    let length = fs::metadata(set.join("rank-1.img"))?.len();
    flip_at(set, ((length - 1) as f64 * place) as usize)
}

fn swap(set: &Path) -> Result<()> {
    fs::rename(set.join("rank-0.img"), set.join("rank-x"))?;
    fs::rename(set.join("rank-1.img"), set.join("rank-0.img"))?;
    fs::rename(set.join("rank-x"), set.join("rank-1.img"))?;
    Ok(())
}

/// The files of a set that are no images: its manifest.
fn manifests(set: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(set)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "img") {
            found.push(path);
        }
    }
    ensure!(!found.is_empty(), "{} has no manifest", set.display());
    Ok(found)
}

fn no_manifest(set: &Path) -> Result<()> {
    for path in manifests(set)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn damage_manifest(set: &Path) -> Result<()> {
    for path in manifests(set)? {
        let text = fs::read_to_string(&path)?;
        // A digit of some number: still well-formed, no longer true.
        let at = text.rfind(|c: char| c.is_ascii_digit()).unwrap_or(0);
        let mut bytes = text.into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        fs::write(&path, bytes)?;
    }
    Ok(())
}

fn open_image(set: &Path) -> Result<()> {
    fs::set_permissions(set.join("rank-1.img"), Permissions::from_mode(0o666))?;
    Ok(())
}

/// The one set in a checkpoint directory.
fn newest_set(ckpt: &Path) -> Result<PathBuf> {
    let mut sets: Vec<PathBuf> = fs::read_dir(ckpt)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    sets.sort();
    sets.pop()
        .with_context(|| format!("there is no set in {}", ckpt.display()))
}

/// A copy, in this case's folder, of a whole set of a job of two ranks that was then killed.
fn copy_of_set(dir: &Path) -> Result<PathBuf> {
    static MADE: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let original = MADE
        .get_or_init(|| make_set().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)?;
    let copy = dir.join("ck");
    let output = Command::new("cp")
        .arg("-a")
        .args([&original, &copy])
        .output()?;
    ensure!(
        output.status.success(),
        "cp: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(copy)
}

fn make_set() -> Result<PathBuf> {
    let dir = super::folder("bad-input/set")?;
    let ckpt = dir.join("ck");
    let mut job = start_held(&dir, &ckpt, Mpi::OpenMpi)?;
    take_checkpoint(&mut job, &dir, &ckpt)?;
    Ok(ckpt)
}

/// A job of two ranks that stand at their cut.
fn start_held(dir: &Path, ckpt: &Path, mpi: Mpi) -> Result<Job> {
    let held = example("probes", "probes/peers.p10_pending_irecv")?;
    start(&held, dir, ckpt, mpi)
}

/// An example, until all its ranks have announced that they can be cut.
pub fn start(example: &Example, dir: &Path, ckpt: &Path, mpi: Mpi) -> Result<Job> {
    let launch = stasis::launch(mpi, RANKS, ckpt, dir);
    start_by(launch, example, dir, mpi)
}

/// The same by a command that launches it.
pub fn start_by(command: Command, example: &Example, dir: &Path, mpi: Mpi) -> Result<Job> {
    let mut job = begin(command, example, dir, mpi)?;
    reach_cut(&mut job, dir)?;
    Ok(job)
}

/// The same, without waiting for it.
pub fn begin(mut command: Command, example: &Example, dir: &Path, mpi: Mpi) -> Result<Job> {
    command
        .args(command_line(example, Some(mpi))?)
        .current_dir(dir)
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"));
    Job::start(command, dir, "launch")
}

/// Kills a job and brings it back by this command, until it can be reached.
pub fn bring_back(job: &mut Job, command: Command, ckpt: &Path, dir: &Path) -> Result<()> {
    job.kill()?;
    let before = stasis::job_file(ckpt);
    *job = Job::start(command, dir, "restart")?;
    let back = stasis::until_reached(job, ckpt, &before, Instant::now() + LIMIT);
    job.explain(back, dir).map(drop)
}

/// Waits until all ranks of a job have announced that they can be cut.
pub fn reach_cut(job: &mut Job, dir: &Path) -> Result<()> {
    let ready = |rank: usize| dir.join(format!("ready.{rank}")).exists();
    job.until("all ranks reached the cut", Instant::now() + LIMIT, || {
        (0..RANKS).all(ready)
    })
    .with_context(|| job::tail(&job::read_text(&job.stderr), 10))
}

/// One example by its name.
pub fn example(folder: &str, name: &str) -> Result<Example> {
    let mut all = collect(&paths::examples(), &[folder])?.into_iter();
    all.find(|example| example.name == name)
        .with_context(|| format!("there is no example {name}"))
}

fn take_checkpoint(job: &mut Job, dir: &Path, ckpt: &Path) -> Result<()> {
    job::run(stasis::checkpoint(ckpt), dir, "checkpoint", LIMIT)?
        .expect_success("stasis checkpoint")?;
    job.kill()
}
