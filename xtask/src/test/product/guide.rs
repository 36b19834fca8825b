//! The commands of README and guide, pasted by a new user in a fresh Debian. Commands that run without changes are in
//! blocks that begin with ```` ```sh ````. They are run in order, in one shell. A command that starts a job runs in the
//! background of those "in another shell", and the job before ends.
//!
//! The guide also runs without packages: its section about the first checkpoint, in which the program's output is
//! compared with what the guide shows, and all that follows.

use crate::harness::mpi::{cores, Mpi};
use crate::harness::{job, paths, signal, stasis};
use crate::test::product::packages;
use crate::test::support::clean_root::CleanRoot;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::example;
use crate::test::{copy_program, Case, Outcome};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GUIDE: &str = "docs/guide.md";
/// Heading of the section with a whole program.
const FIRST: &str = "## Your first checkpoint in five minutes\n";
/// Heading of the section behind it.
const BEHIND: &str = "## Before the first run\n";
/// Beginning of the lines that its program prints.
const PRINTED: &str = "step ";
/// Time for that section on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The beginning of a new user's shell.
const LOG_IN: &str = r"
cd
. /etc/profile.d/modules.sh
";

/// For the program that is run as `./app`, and for speed beside other tests. Nothing here lets a command succeed that
/// fails as it is printed: the pages themselves say how more ranks than cores are started.
const SETTINGS: &str = r"
export STASIS_TEST_READY=$HOME/ready STASIS_TEST_GO=$HOME/go
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
unset OMPI_MCA_rmaps_base_oversubscribe
";

/// The pages say in words that one core is too few for two ranks of Open MPI.
const ONE_CORE: &str = "export OMPI_MCA_rmaps_base_oversubscribe=1\n";

/// The settings of this machine.
fn settings() -> String {
    let one_core = if cores() < 2 { ONE_CORE } else { "" };
    format!("{SETTINGS}{one_core}")
}

/// Functions in the place of commands that start jobs. The output of all jobs goes to one file.
const JOBS: &str = r#"
set -eE -o pipefail
trap 'echo "failed: $BASH_COMMAND" >&2; cat job.log >&2' ERR

# Starts a job and waits until it can be reached.
job=
start() {
    if [ -n "$job" ]; then
        kill "$job" 2>/dev/null || true
        wait "$job" || true
    fi
    local dir= word= before=
    for word in "$@"; do
        case $before in --ckpt-dir | restart) dir=${word%/ckpt-[0-9]*} ;; esac
        before=$word
    done
    "$@" >>job.log 2>&1 &
    job=$!
    # Without a directory there is one of a default name.
    until command stasis status ${dir:+"$dir"} >/dev/null 2>&1; do
        kill -0 "$job"
        sleep 0.2
    done
}
mpirun() { start command mpirun "$@"; }
stasis() {
    case $1 in
        run) start command stasis "$@" ;;
        *) command stasis "$@" ;;
    esac
}
mpirun.openmpi() { start command mpirun.openmpi "$@"; }
mpirun.mpich() { start command mpirun.mpich "$@"; }
set -v
"#;

/// The cases without packages.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("guide/first-checkpoint", |_, dir| first(dir).into()),
        Case::new("guide/commands", |_, dir| others(dir).into()),
    ]
}

/// The commands behind the first section, with the sources' Stasis.
fn others(dir: &Path) -> Result<()> {
    let guide = fs::read_to_string(paths::root().join(GUIDE))?;
    let typed = runnable(guide.split_once(BEHIND).context(BEHIND)?.1);
    ensure!(typed.lines().count() > 20, "there are no commands to run");
    app(dir)?;
    let script = format!(
        "{}{JOBS}{typed}\nkill \"$job\"; wait \"$job\" || true\n",
        settings()
    );
    let mut shell = stasis::shell(&script, dir);
    shell.env("HOME", dir);
    job::run(shell, dir, "typed", LIMIT)?.expect_success(GUIDE)?;
    Ok(())
}

/// The program that the pages call `./app`.
fn app(dir: &Path) -> Result<PathBuf> {
    let ring = example("p2p", "p2p/ring_loop")?;
    let program = command_line(&ring, Some(Mpi::OpenMpi))?.remove(0);
    let app = dir.join("app");
    copy_program(Path::new(&program), &app)?;
    Ok(app)
}

fn first(dir: &Path) -> Result<()> {
    let guide = fs::read_to_string(paths::root().join(GUIDE))?;
    let section = guide.split_once(FIRST).context("the section")?.1;
    let section = section.split("\n## ").next().unwrap_or(section);
    let typed = runnable(section);
    // The packages are there.
    let typed = typed.lines().filter(|line| !line.starts_with("sudo "));
    let typed: Vec<&str> = typed.collect();
    let script = format!("{}{JOBS}{}\nwait \"$job\"\n", settings(), typed.join("\n"));
    job::run(stasis::shell(&script, dir), dir, "typed", LIMIT)?.expect_success(FIRST.trim_end())?;
    let output = job::read_text(&dir.join("job.log"));
    let outputs = blocks(section, "text\n");
    let (shown, printed) = (distinct(&outputs), distinct(&output));
    ensure!(shown.len() > 1, "the section shows no output");
    ensure!(
        shown == printed,
        "the guide shows {shown:?}, and the program prints {printed:?}"
    );
    Ok(())
}

/// The lines that the program prints, each once: a restart prints again what was printed since the checkpoint.
fn distinct(output: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in output.lines().filter(|line| line.starts_with(PRINTED)) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The cases with packages, for `--full`.
pub fn packaged() -> Vec<Case> {
    ["README.md", GUIDE]
        .map(|page| {
            Case::new(format!("package/commands-of-{page}"), move |_, dir| {
                commands(page, dir)
            })
        })
        .into()
}

fn commands(page: &str, dir: &Path) -> Outcome {
    if !signal::is_root() {
        return Outcome::Skipped("needs root for a fresh Debian".into());
    }
    run(page, dir).into()
}

fn run(page: &str, dir: &Path) -> Result<()> {
    let typed = runnable(&fs::read_to_string(paths::root().join(page))?);
    ensure!(typed.lines().count() > 1, "{page} has no commands to run");
    let root = CleanRoot::new(dir)?;
    root.put(&packages::tarball()?, "home/new")?;
    root.put(&packages::deb()?, "home/new")?;
    root.put(&app(dir)?, "home/new")?;
    let script = dir.join("typed.sh");
    fs::write(&script, format!("{LOG_IN}{}{JOBS}{typed}", settings()))?;
    root.put(&script, "home/new")?;
    let log_in = "useradd --shell /bin/bash new && chown -R new: /home/new && \
        echo 'new ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/new && su - new -c 'bash typed.sh'";
    root.run(log_in, dir, "typed")?.expect_success(page)?;
    Ok(())
}

/// Commands in the runnable blocks of a page.
fn runnable(page: &str) -> String {
    blocks(page, "sh\n")
}

/// The content of a page's blocks of one kind.
fn blocks(page: &str, kind: &str) -> String {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let mut content = String::new();
    for block in blocks.filter_map(|block| block.strip_prefix(kind)) {
        content += block;
        content += "\n";
    }
    content
}

#[cfg(test)]
mod tests {
    use super::runnable;

    #[test]
    fn only_marked_blocks_are_run() {
        let page = "text\n```sh\none\ntwo\n```\nmore\n```\nnot this\n```\n```sh\nthree\n```\n";
        assert_eq!(runnable(page), "one\ntwo\nthree\n");
    }
}
