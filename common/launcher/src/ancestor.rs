//! The launcher among this process's ancestors, recognised by the name of its executable. Its folder
//! distinguishes the libraries of one family on a machine; the environment shows only the family. Shells,
//! wrappers and debuggers between launcher and process do not matter.
//!
//! To add a launcher, add the name of the executable that starts the ranks on a machine, if no other
//! program has that name. (`mpirun` and `mpiexec` exist in every library, and start the ranks through one
//! of these.)

use std::fs;
use std::path::{Path, PathBuf};

use crate::Library;

const LAUNCHERS: [(&str, Library); 9] = [
    ("orterun", Library::OpenMpi),
    ("orted", Library::OpenMpi),
    ("prterun", Library::OpenMpi),
    ("prte", Library::OpenMpi),
    ("prted", Library::OpenMpi),
    ("hydra_pmi_proxy", Library::Mpich),
    ("hydra_bstrap_proxy", Library::Mpich),
    ("mpiexec.hydra", Library::Mpich),
    ("mpiexec.gforker", Library::Mpich),
];

/// Names of programs that start ranks. Many libraries use them, alone or with the library's name after a
/// dot.
const STARTERS: [&str; 3] = ["mpirun", "mpiexec", "srun"];

/// Whether a program starts ranks, by its name.
pub fn starts_ranks(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let starter = name.and_then(|name| name.split('.').next());
    starter.is_some_and(|name| STARTERS.contains(&name)) || Launcher::at(path).is_some()
}

/// The executable of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Path without symbolic links.
    pub path: PathBuf,
    /// MPI library that the launcher belongs to.
    pub library: Library,
}

impl Launcher {
    /// The launcher at this path, if it is one.
    fn at(path: &Path) -> Option<Launcher> {
        let name = path.file_name()?;
        let (_, library) = LAUNCHERS.iter().find(|(known, _)| *known == name)?;
        Some(Launcher {
            path: path.to_owned(),
            library: *library,
        })
    }

    /// Folder of the launcher's programs.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// The nearest ancestor of this process that is a launcher.
pub fn launcher() -> Option<Launcher> {
    let mut pid = std::os::unix::process::parent_id();
    // The launcher is the first process of a container that was started for it.
    while pid > 0 {
        // The link of another user's process cannot be read; it is no launcher of this job.
        let found = fs::read_link(format!("/proc/{pid}/exe"));
        if let Some(launcher) = found.ok().as_deref().and_then(Launcher::at) {
            return Some(launcher);
        }
        pid = parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    }
    None
}

/// Whether a launcher has started this process, and the process is in a user namespace in which the launcher is not, as
/// by `mpirun apptainer exec IMAGE PROGRAM`. Each rank has a namespace of its own then, and the kernel forbids it to
/// look into the memory and at the open files of the others.
pub fn is_apart_from_launcher() -> bool {
    is_in_user_namespace() && crate::rank().is_some() && launcher().is_none()
}

/// Whether this process is in another user namespace than that of the machine.
pub fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map");
    map.is_ok_and(|map| !is_initial(&map))
}

/// Whether a user namespace with this `uid_map` is that of the machine: its ids are those of all users.
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The parent's id in a line of `/proc/PID/stat`: the second word after the name. The name is in
/// parentheses and may contain any character.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_after_any_name() {
        assert_eq!(parent_of("12 (a) b (c)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of("12 (bash"), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert_eq!(parent_of(&own), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn the_namespace_of_the_machine_has_all_users() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(!is_initial(
            "         0       1000          1\n         1     100000      65536\n"
        ));
    }

    #[test]
    fn launchers_are_recognised_by_name() {
        let found = Launcher::at(Path::new("/opt/mpich/bin/hydra_pmi_proxy")).unwrap();
        assert_eq!(found.library, Library::Mpich);
        assert_eq!(found.folder(), Path::new("/opt/mpich/bin"));
        assert_eq!(Launcher::at(Path::new("/bin/bash")), None);
        let starts = |path: &str| starts_ranks(Path::new(path));
        assert!(starts("/usr/bin/mpirun.openmpi") && starts("srun") && starts("/x/orterun"));
        assert!(!starts("./mpirun_test") && !starts("/bin/bash"));
    }
}
