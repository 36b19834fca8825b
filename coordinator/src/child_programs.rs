//! Programs that this process has started. While ranks have not called MPI_Init, one of these may be the
//! program that calls it. A user who waits for a checkpoint needs this information.

use std::fs;

/// A child of this process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildProgram {
    /// Process id.
    pub pid: u32,
    /// Name of its program, as in its arguments.
    pub name: String,
}

/// Children of this process that run another program; empty if the kernel does not list them.
pub fn child_programs() -> Vec<ChildProgram> {
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program("self");
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|line| {
            line.split_whitespace()
                .flat_map(str::parse)
                .collect::<Vec<u32>>()
        })
        .collect();
    let other = |pid: &u32| program(&pid.to_string()).is_some_and(|program| Some(program) != own);
    children
        .into_iter()
        .filter(other)
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
            // During an exec, a process has the file of its program but no arguments yet.
            let name = match (name, program(&pid.to_string())) {
                (b"", Some(file)) => file.to_string_lossy().into_owned(),
                _ => String::from_utf8_lossy(name).into_owned(),
            };
            ChildProgram { pid, name }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_seen_while_it_runs() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let seen = child_programs()
            .into_iter()
            .find(|started| started.pid == child.id());
        assert!(seen.unwrap().name.ends_with("cat"));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(child_programs()
            .iter()
            .all(|started| started.pid != child.id()));
    }
}
