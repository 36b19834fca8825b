//! A system call of Stasis's own fails while a checkpoint is taken: for want of memory, of descriptors, of threads,
//! or because a file system has an error. The first such call of each thread fails, then the second, and so on until
//! none is left. Each checkpoint is committed or given up with a reason, and the job runs on, can be checkpointed, and
//! restarted.
//!
//! Calls of the MPI libraries themselves (process_vm_readv, epoll_wait, futex) are excluded: their failure ends the
//! job, natively too.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::support::held_job::{bring_back, example, start};
use crate::test::support::refusal::{refused, CHECKPOINT};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;
/// Upper bound, far above the number of calls.
const MOST: usize = 200;

/// Calls that fail together.
struct Fault {
    name: &'static str,
    calls: &'static str,
    error: &'static str,
    /// Words of which the message about an abandoned checkpoint contains one.
    words: &'static [&'static str],
}

const FAULTS: [Fault; 9] = [
    Fault {
        name: "memory",
        calls: "mmap,munmap,mprotect,mremap,madvise,brk",
        error: "ENOMEM",
        words: &["memory", "thread"],
    },
    Fault {
        name: "threads",
        calls: "clone,clone3,fork,vfork",
        error: "EAGAIN",
        words: &["thread", "temporarily"],
    },
    Fault {
        name: "descriptors",
        calls: "openat,openat2,socket,accept,accept4,dup,dup3,pipe2,memfd_create,eventfd2",
        error: "EMFILE",
        words: &["Too many open files", "answered"],
    },
    Fault {
        name: "looking",
        calls: "readlink,readlinkat,statx,newfstatat,fstat,stat,lstat,statfs,fstatfs,getdents64",
        error: "ENOMEM",
        words: &["memory"],
    },
    Fault {
        name: "reading",
        calls: "pread64,preadv,preadv2,ioctl,lseek",
        error: "ENOMEM",
        words: &["memory"],
    },
    Fault {
        name: "writing",
        calls: "pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,fallocate",
        error: "EIO",
        words: &["Input/output error"],
    },
    Fault {
        name: "names",
        calls: "rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir,link,linkat",
        error: "EIO",
        words: &["Input/output error"],
    },
    Fault {
        name: "tables",
        calls: "unshare,close_range,fcntl,prctl,membarrier,wait4,waitid",
        error: "ENOMEM",
        words: &["memory"],
    },
    Fault {
        name: "messages",
        calls: "sendto,recvfrom,sendmsg,recvmsg",
        error: "ENOMEM",
        words: &["memory"],
    },
];

/// All cases of this file: of the faults that a full machine brings one library each, and all over both with `full`.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases: Vec<Case> = Mpi::ALL
        .map(|mpi| {
            let name = format!("injected/no-flock:{mpi}");
            Case::new(name, move |_, dir| without_flock(dir, mpi).into())
        })
        .into();
    for (fault, first) in FAULTS.iter().zip(Mpi::ALL.into_iter().cycle()) {
        let common = ["memory", "threads", "descriptors"].contains(&fault.name);
        for mpi in Mpi::ALL {
            if full || (common && mpi == first) {
                let name = format!("injected/{}:{mpi}", fault.name);
                cases.push(Case::new(name, move |_, dir| sweep(dir, mpi, fault).into()));
            }
        }
    }
    cases
}

fn sweep(dir: &Path, mpi: Mpi, fault: &Fault) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, mpi)?;
    checkpoint(&ckpt, dir, "first")?;
    let mut struck = 0;
    for rank in 0..RANKS {
        let swept = sweep_rank(&mut job, dir, rank, fault);
        struck += job.explain(swept.with_context(|| format!("rank {rank}")), dir)?;
    }
    ensure!(struck > 0, "no call was ever made to fail");
    let last = checkpoint(&ckpt, dir, "last");
    job.explain(last, dir)?;
    let said = job::read_text(&job.stderr);
    ensure!(!said.contains("panicked"), "it panicked:\n{said}");
    let restart = stasis::restart(mpi, RANKS, &ckpt, dir);
    bring_back(&mut job, in_folder(restart, dir), &ckpt, dir)?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// A file system without flock(2), as Lustre is by default: the checkpoint is taken, and leaves nothing but its set.
fn without_flock(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, mpi)?;
    let trace = dir.join("trace");
    let mut tracer = Command::new("strace");
    let pid = process_of(&job, 0)?.to_string();
    tracer.args(["-f", "-p", &pid, "-o"]).arg(&trace);
    tracer.args(["-e", "trace=flock", "-e", "inject=flock:error=ENOSYS"]);
    let mut tracer = Job::start(tracer, dir, "strace")?;
    tracer.until_said("attached", Instant::now() + LIMIT)?;
    let taken = checkpoint(&ckpt, dir, "checkpoint");
    for pid in tracer.pids() {
        signal::send(pid, signal::Signal::SIGINT);
    }
    tracer
        .wait(Instant::now() + LIMIT)?
        .context("strace does not end")?;
    job.explain(taken, dir)?;
    ensure!(
        job::read_text(&trace).contains("(INJECTED)"),
        "no lock was ever asked for"
    );
    let writer = ckpt.join("ckpt-1").join("writer");
    ensure!(!writer.exists(), "{} was left", writer.display());
    let restart = stasis::restart(mpi.other(), RANKS, &ckpt, dir);
    bring_back(&mut job, in_folder(restart, dir), &ckpt, dir)?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)
}

fn in_folder(mut command: Command, dir: &Path) -> Command {
    command.current_dir(dir);
    command.env("STASIS_TEST_READY", dir.join("ready"));
    command.env("STASIS_TEST_GO", dir.join("go"));
    command
}

fn checkpoint(ckpt: &Path, dir: &Path, name: &str) -> Result<()> {
    stasis::take_checkpoint(ckpt, dir, name, LIMIT)
}

/// Makes one call after the other fail in one rank. Returns the number of failed calls.
fn sweep_rank(job: &mut Job, dir: &Path, rank: usize, fault: &Fault) -> Result<usize> {
    let pid = process_of(job, rank)?;
    for nth in 1..=MOST {
        let name = format!("{rank}-{nth}");
        let trace = dir.join(format!("trace-{name}"));
        let mut tracer = Command::new("strace");
        tracer
            .args(["-f", "-p", &pid.to_string(), "-o"])
            .arg(&trace);
        tracer.args(["-e", &format!("trace={}", fault.calls), "-e"]);
        tracer.arg(format!(
            "inject={}:error={}:when={nth}",
            fault.calls, fault.error
        ));
        let mut tracer = Job::start(tracer, dir, &format!("strace-{name}"))?;
        tracer.until_said("attached", Instant::now() + LIMIT)?;
        let asked = job::run(stasis::checkpoint(&dir.join("ck")), dir, &name, LIMIT)?;
        for pid in tracer.pids() {
            signal::send(pid, signal::Signal::SIGINT);
        }
        tracer
            .wait(Instant::now() + LIMIT)?
            .context("strace does not end")?;
        let struck = job::read_text(&trace).contains("(INJECTED)");
        if let Some(status) = job.poll()? {
            anyhow::bail!("call {nth}: the job ended with {status}");
        }
        if !asked.status.success() {
            ensure!(
                struck,
                "refused though no call has failed: {}",
                asked.stderr
            );
            refused(&asked, CHECKPOINT, &[fault.words])
                .with_context(|| format!("call {nth}, {}", trace.display()))?;
        }
        if !struck {
            return Ok(nth - 1);
        }
    }
    anyhow::bail!("there are calls without end")
}

/// Process of a rank, recognised by the threads of its checkpoint agent.
fn process_of(job: &Job, rank: usize) -> Result<i32> {
    let numbers = ["PMI_RANK", "OMPI_COMM_WORLD_RANK"].map(|name| format!("{name}={rank}"));
    let is_rank = |pid: &i32| {
        let text = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut words = text.split(|byte| *byte == 0);
        words.any(|word| numbers.iter().any(|number| number.as_bytes() == word))
    };
    let has_agent = |pid: &i32| {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let mut threads = threads.into_iter().flatten().flatten();
        threads.any(|thread| job::read_text(&thread.path().join("comm")).starts_with("ckpt-"))
    };
    let mut all = job.pids().into_iter();
    let found = all.find(|pid| is_rank(pid) && has_agent(pid));
    found.with_context(|| format!("the process of rank {rank} is not found"))
}
