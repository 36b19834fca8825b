//! `stasis completions`, in real shells on a terminal: words are typed, and a tabulator.

use crate::build::setup;
use crate::harness::job::{self, Job};
use crate::harness::{paths, stasis};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// The text that is typed before a tab, and the line after it.
const TYPED: &[(&str, &str)] = &[
    ("stasis rec", "stasis record-info "),
    (
        "mpirun -n 2 stasis restart ck/ckpt-1",
        "mpirun -n 2 stasis restart ck/ckpt-10 ",
    ),
    (
        "stasis restart ck --set ckpt-9",
        "stasis restart ck --set ckpt-9 ",
    ),
    (
        "mpirun -n 2 stasis launch --signal USR1,TE",
        "mpirun -n 2 stasis launch --signal USR1,TERM ",
    ),
    (
        "mpiexec.mpich -n 2 stasis launch --mpi sta",
        "mpiexec.mpich -n 2 stasis launch --mpi standard ",
    ),
    (
        "stasis run -- mpirun -n 2 stasis launch --full",
        "stasis run -- mpirun -n 2 stasis launch --full-every ",
    ),
    (
        "mpirun -n 2 stasis launch --mpi=sta",
        "mpirun -n 2 stasis launch --mpi=standard ",
    ),
    (
        "stasis launch --signal=USR1,TE",
        "stasis launch --signal=USR1,TERM ",
    ),
    (
        "srun -n 2 stasis restart ck --set=ckpt-9",
        "srun -n 2 stasis restart ck --set=ckpt-9 ",
    ),
    (
        "stasis restart --set ckpt-7",
        "stasis restart --set ckpt-77 ",
    ),
    ("stasis man expl", "stasis man explain "),
    ("mpirun -n 2 ./own-pro", "mpirun -n 2 ./own-program "),
];
/// Control and G: the shell writes its line to a file, and empties it.
const TELL: char = '\u{7}';
const LINES: &str = "lines";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("completions/bash", |_, dir| bash(dir).into()),
        Case::new("completions/zsh", |_, dir| {
            match setup::missing(Some("zsh")) {
                Some(why) => Outcome::Skipped(why),
                None => zsh(dir).into(),
            }
        }),
    ]
}

fn bash(dir: &Path) -> Result<()> {
    fs::write(dir.join("script"), script("bash", dir)?)?;
    let tell = format!(
        r#"tell() {{ echo "$READLINE_LINE" >> {LINES}; READLINE_LINE=; }}; bind -x '"\C-g": tell'"#
    );
    ask(
        "bash --norc --noprofile -i",
        &format!("source ./script; {tell}"),
        dir,
    )
}

/// The file is in a folder that `compinit` looks through, as that of Debian's package is.
fn zsh(dir: &Path) -> Result<()> {
    let functions = dir.join("functions");
    fs::create_dir(&functions)?;
    fs::write(functions.join("_stasis"), script("zsh", dir)?)?;
    let load = "fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -D -u";
    let tell = format!(
        "tell() {{ print -r -- $BUFFER >> {LINES}; BUFFER=; }}; zle -N tell; bindkey '^G' tell"
    );
    ask("zsh -f -i", &format!("{load}; {tell}"), dir)
}

fn script(shell: &str, dir: &Path) -> Result<String> {
    let asked = stasis::command(["completions", shell]);
    let told = job::run(asked, dir, "completions", LIMIT)?.expect_success("completions")?;
    Ok(told.stdout)
}

/// Types the lines into a shell.
fn ask(shell: &str, load: &str, dir: &Path) -> Result<()> {
    for set in ["ck/ckpt-9", "ck/ckpt-10", "app.ckpt/ckpt-77"] {
        fs::create_dir_all(dir.join(set))?;
    }
    fs::write(dir.join("own-program"), "")?;
    let bin = paths::product().join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", shell, "/dev/null"]);
    terminal
        .env("TERM", "xterm")
        .env("PATH", format!("{}:{path}", bin.display()))
        .current_dir(dir);
    let mut job = Job::start(terminal, dir, "shell")?;
    let lines = dir.join(LINES);
    job.type_in(&format!("{load}; echo > {LINES}\n"))?;
    let until = |job: &mut Job, number: usize| {
        let come = job.until("the shell wrote its line", Instant::now() + LIMIT, || {
            job::read_text(&lines).lines().count() > number
        });
        job.explain(come, dir)
    };
    until(&mut job, 0)?;
    for (number, (typed, _)) in TYPED.iter().enumerate() {
        job.type_in(&format!("{typed}\t{TELL}"))?;
        until(&mut job, number + 1)?;
    }
    let written = job::read_text(&lines);
    for ((typed, expected), line) in TYPED.iter().zip(written.lines().skip(1)) {
        ensure!(line == *expected, "{typed:?} is completed to {line:?}");
    }
    job.kill()
}
