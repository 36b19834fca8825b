//! Unsupported programs.

use super::{case, launch_alone, LIMIT};
use crate::docs;
use crate::harness::mpi::Mpi;
use crate::harness::{job, paths, stasis};
use crate::test::support::compile::patchelf;
use crate::test::support::held_job::RANKS;
use crate::test::support::helper_programs::{compile, on_older_kernel};
use crate::test::support::refusal::{refused, CANNOT_SERVE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

pub fn cases() -> Vec<Case> {
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
            // Only the ELF header of a 32-bit x86 executable: the check must stop there.
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
        case("no-trap-of-system-calls", |dir| {
            let mut launch = Command::new(paths::stasis());
            launch.args(["launch", "--ckpt-dir"]);
            launch.arg(dir.join("ck")).arg("/bin/true");
            let command = on_older_kernel("seccomp", &launch, dir)?;
            let command = on_older_kernel("sud", &command, dir)?;
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(
                &finished,
                CANNOT_SERVE,
                &[&["Syscall User Dispatch"], &["seccomp"], &["5.11"]],
            )
        }),
    ];
    for (mpi, function) in [
        (Mpi::OpenMpi, "MPIX_Barrier_init"),
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
            let mut doctor = stasis::command(["doctor", "--json"]);
            doctor.arg(&program);
            let told = job::run(doctor, dir, "doctor-bad-json", LIMIT)?.stdout;
            let told: Value = serde_json::from_str(&told)?;
            docs::check_printed("doctor", &told)?;
            let found = told["findings"].as_array().context("no findings")?;
            let text = |row: &Value| {
                row["text"]
                    .as_str()
                    .is_some_and(|text| text.contains(function))
            };
            ensure!(
                told["works"] == false
                    && found.iter().any(|row| row["verdict"] == "bad" && text(row)),
                "{told:#}"
            );
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
            doctor.arg(&program);
            let told = stasis::json(doctor, dir, "doctor-json", LIMIT)?;
            let rows = |member: &str| told[member].as_array().cloned().unwrap_or_default();
            let served = |row: &Value| row["name"] == "MPI_Init" && row["served"] == true;
            let noted = |row: &Value| row["what"] == "MPI_Comm_spawn" && row["verdict"] == "note";
            ensure!(
                told["works"] == true
                    && rows("symbols").iter().any(served)
                    && rows("findings").iter().any(noted),
                "{told:#}"
            );
            let mut doctor = stasis::command(["doctor", "--symbols"]);
            doctor.arg(program);
            let finished = job::run(doctor, dir, "doctor-symbols", LIMIT)?;
            let said = finished.expect_success("stasis doctor")?.stdout;
            let front = format!("the front for {mpi}");
            let note = "note  MPI_Comm_spawn";
            let place = "1 MiB is durable after";
            let processor = "ok    processor: has all of x86-64";
            let imported = ["all 3 symbols", note, "has   MPI_Init "];
            for words in [&front, place, processor].into_iter().chain(imported) {
                ensure!(said.contains(words), "does not say '{words}':\n{said}");
            }
            Ok(())
        }));
        cases.push(case(&format!("gpu-buffers-{mpi}"), move |dir| {
            let flags = ["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"];
            let standin = dir.join("libcuda.so.1");
            fs::rename(compile(dir, "gcc", "cuda.c", &flags)?, &standin)?;
            gpu_buffers(dir, mpi, &standin)
        }));
        // The machine's own driver.
        let with_gpu = Path::new("/dev/nvidiactl").exists();
        cases.extend(with_gpu.then(|| {
            case(&format!("gpu-buffers-driver-{mpi}"), move |dir| {
                gpu_buffers(dir, mpi, Path::new("libcuda.so.1"))
            })
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
    for found in [false, true] {
        let name = if found { "found" } else { "missing" };
        cases.push(case(&format!("unknown-mpi-{name}"), move |dir| {
            unknown_mpi(dir, found)
        }));
    }
    cases
}

/// A program needs an MPI library with an unknown name. `doctor` and `launch` name that library, whether its file is
/// found or not. A library that only stands beside an MPI library is not taken for one.
fn unknown_mpi(dir: &Path, found: bool) -> Result<()> {
    const UNKNOWN: &str = "libmpi_foo.so.12";
    let program = compile(dir, &Mpi::Mpich.compiler("c"), "imports.c", &[])?;
    patchelf(&program, &["--replace-needed", "libmpich.so.12", UNKNOWN])?;
    let place = if found { UNKNOWN } else { "not found here" };
    if found {
        let library = dir.join(UNKNOWN);
        fs::copy("/usr/lib/x86_64-linux-gnu/libmpich.so.12", &library)?;
        patchelf(&library, &["--set-soname", UNKNOWN])?;
    }
    let words: &[&[&str]] = &[&[UNKNOWN], &[place], &["patchelf --replace-needed"]];
    let mut doctor = stasis::command(["doctor".as_ref(), program.as_os_str()]);
    doctor.env("LD_LIBRARY_PATH", dir);
    refused(
        &job::run(doctor, dir, "doctor", LIMIT)?,
        CANNOT_SERVE,
        words,
    )?;
    let mut launch = stasis::launch(Mpi::Mpich, RANKS, &dir.join("ck"), dir);
    launch.arg(&program).env("LD_LIBRARY_PATH", dir);
    refused(
        &job::run(launch, dir, "launch", LIMIT)?,
        CANNOT_SERVE,
        words,
    )?;

    patchelf(&program, &["--replace-needed", UNKNOWN, "libmpich.so.12"])?;
    patchelf(&program, &["--add-needed", "libmpi_gtl_foo.so.0"])?;
    let doctor = stasis::command(["doctor".as_ref(), program.as_os_str()]);
    job::run(doctor, dir, "beside", LIMIT)?.expect_success("stasis doctor")?;
    Ok(())
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

/// Functions that start or reach other processes return an error with advice. The job ends only under an error handler
/// that ends it.
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
            line.is_some_and(|line| line.contains("start all ranks with the launcher")),
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

/// Calls that use memory of a GPU return an error with advice, under this library of CUDA's driver. Calls that only
/// name it succeed.
fn gpu_buffers(dir: &Path, mpi: Mpi, driver: &Path) -> Result<()> {
    const REFUSED: [&str; 8] = [
        "MPI_Send",
        "MPI_Irecv",
        "MPI_Sendrecv",
        "MPI_Allreduce",
        "MPI_Iallreduce",
        "MPI_Win_create",
        "MPI_Put",
        "MPI_File_write_at_all",
    ];
    let program = compile(dir, &mpi.compiler("c"), "gpu_buffers.c", &["-ldl"])?;
    let launch = |variant: &str| {
        let mut command = stasis::launch(mpi.other(), RANKS, &dir.join("ck"), dir);
        command.arg(&program).arg(variant).arg(driver);
        job::run(command, dir, variant, LIMIT)
    };
    let says = |said: &str, function: &str| {
        let begins = format!("{function}: the buffer 0x");
        let mut lines = said.lines().filter(|line| line.contains(&begins));
        lines.any(|line| line.contains("is memory of a GPU") && line.contains("Copy the data"))
    };
    let returned = launch("returned")?;
    let said = returned.stderr.clone();
    returned.expect_success("a job whose errors are returned")?;
    for function in REFUSED {
        ensure!(says(&said, function), "{function} is not named:\n{said}");
    }
    let fatal = launch("fatal")?;
    ensure!(!fatal.status.success(), "the error was not fatal");
    let said = fatal.stderr;
    ensure!(
        says(&said, "MPI_Send") && !says(&said, "MPI_Irecv"),
        "says\n{said}"
    );
    Ok(())
}
