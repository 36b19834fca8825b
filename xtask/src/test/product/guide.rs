//! The commands of README and guide, pasted by a new user in a fresh Debian. Commands that run without changes are in
//! blocks that begin with ```` ```sh ````. They are run in order, in one shell. A command that starts a job runs in the
//! background of those "in another shell", and the job before ends.

use crate::harness::mpi::Mpi;
use crate::harness::{paths, signal};
use crate::test::product::packages;
use crate::test::support::clean_root::CleanRoot;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::example;
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;

/// Prologue of the shell script.
const BEFORE: &str = r#"
cd
. /etc/profile.d/modules.sh
export STASIS_TEST_READY=$HOME/ready STASIS_TEST_GO=$HOME/go
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1
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
    "$@" >job.log 2>&1 &
    job=$!
    until stasis status "$dir" >/dev/null 2>&1; do
        kill -0 "$job"
        sleep 0.2
    done
}
mpirun() { start command mpirun "$@"; }
mpirun.openmpi() { start command mpirun.openmpi "$@"; }
mpirun.mpich() { start command mpirun.mpich "$@"; }
set -v
"#;

/// The cases, for `--full`.
pub fn cases() -> Vec<Case> {
    ["README.md", "docs/guide.md"]
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
    let ring = example("p2p", "p2p/ring_loop")?;
    let program = command_line(&ring, Some(Mpi::OpenMpi))?.remove(0);
    let app = dir.join("app");
    fs::copy(program, &app)?;
    root.put(&app, "home/new")?;
    let script = dir.join("typed.sh");
    fs::write(&script, format!("{BEFORE}{typed}"))?;
    root.put(&script, "home/new")?;
    let log_in = "useradd --shell /bin/bash new && chown -R new: /home/new && \
        echo 'new ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/new && su - new -c 'bash typed.sh'";
    root.run(log_in, dir, "typed")?.expect_success(page)?;
    Ok(())
}

/// Commands in the runnable blocks of a page.
fn runnable(page: &str) -> String {
    let mut blocks = page.split("\n```").skip(1).step_by(2);
    let mut typed = String::new();
    for block in blocks
        .by_ref()
        .filter_map(|block| block.strip_prefix("sh\n"))
    {
        typed += block;
        typed += "\n";
    }
    typed
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
