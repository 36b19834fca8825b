//! Environment variables for the MPI library. Some libraries read them when they are loaded, before `main`. So this
//! process executes itself again with the variables, and without the application's LD_PRELOAD. The application never
//! sees the variables, and its own values come back to it.
//!
//! A lower half for the standard ABI loads its library after that. It does not know before whether UCX is part of the
//! library, and can be told of memory. If it is not, the variable follows then: a UCX that the library loads later, for
//! libfabric, still reads it.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use launcher::preload;

use crate::mpi;
use crate::mpi::registration_caches::{is_told_by, OPEN_MPI, UCX};

/// A variable for the MPI library. A user's own value takes precedence, unless it does harm.
struct Setting {
    name: &'static str,
    value: &'static str,
    /// Whether a user's value is kept.
    keeps: fn(&str) -> bool,
    /// Functions by which the loader reaches what the variable switches off: with one of them, it stays.
    reached_by: &'static [&'static CStr],
    /// The damage that the MPI library would do with a user's value that is not kept.
    harm: &'static str,
}

const fn wish(name: &'static str, value: &'static str) -> Setting {
    let keeps = |_: &str| true;
    Setting {
        name,
        value,
        keeps,
        reached_by: &[],
        harm: "",
    }
}

/// A cache of registered memory learns from hooks in its own C library of `munmap` and its like. The upper half does
/// not call that C library. So a cache that is not told would send and receive in pages that are no longer there.
const fn without_hooks(
    name: &'static str,
    value: &'static str,
    keeps: fn(&str) -> bool,
    reached_by: &'static [&'static CStr],
) -> Setting {
    Setting {
        name,
        value,
        keeps,
        reached_by,
        harm: "send and receive in memory that the program has given back",
    }
}

fn is_no(value: &str) -> bool {
    ["n", "no", "off", "0", "false"].contains(&value.to_ascii_lowercase().as_str())
}

/// The monitors of libfabric that need no hooks: the kernel tells them.
fn is_told_by_kernel(monitor: &str) -> bool {
    ["disabled", "kdreg2", "userfaultfd"].contains(&monitor)
}

/// Of the application's memory UCX is told, by Open MPI if that has its events. UCX's hooks put a function in the place
/// of mremap that loses an argument, so the lower half calls the kernel for it.
const SETTINGS: [Setting; 9] = [
    without_hooks("UCX_MEM_EVENTS", "n", is_no, &[OPEN_MPI, UCX]),
    without_hooks("FI_MR_CACHE_MONITOR", "disabled", is_told_by_kernel, &[]),
    without_hooks("OMPI_MCA_mpi_leave_pinned", "0", is_no, &[OPEN_MPI]),
    without_hooks(
        "OMPI_MCA_mpi_leave_pinned_pipeline",
        "0",
        is_no,
        &[OPEN_MPI],
    ),
    // MVAPICH2 and MVAPICH 3.
    without_hooks("MV2_USE_LAZY_MEM_UNREGISTER", "0", is_no, &[]),
    without_hooks("MVP_USE_LAZY_MEM_UNREGISTER", "0", is_no, &[]),
    // hwloc looks for GPUs through their drivers, and CUDA's reserves addresses in each process where the program's own
    // driver needs them.
    Setting {
        name: "HWLOC_COMPONENTS",
        value: "-cuda,-opencl,-rsmi,-levelzero",
        keeps: |users| users.contains("-cuda") && users.contains("-opencl"),
        reached_by: &[],
        harm: "take addresses that the driver of the program's GPUs needs",
    },
    // UCX must not handle a crash of the application before the application's own handler.
    wish("UCX_ERROR_SIGNALS", ""),
    // Open MPI's sharedfp/sm protects a file's shared pointer with a named semaphore. Its name is the last part of the
    // file's name, so all jobs on the machine share it. A killed job may leave it locked.
    wish("OMPI_MCA_sharedfp", "^sm"),
];

/// For ranks that have a user namespace each. UCX reads memory and opens files of another rank through its process,
/// which the kernel forbids there, and ends the program when that fails. Instead of that memory UCX then takes TCP for
/// large messages, also on one node. MPICH 4.0 may not return from MPI_Finalize with a connection over TCP: to close
/// one, a rank waits for an answer of the other rank, which may already be in the last barrier, where it makes no
/// progress in UCX. Without the operation that UCX takes TCP for, large messages go through shared memory.
const APART: [Setting; 3] = [
    wish("UCX_POSIX_USE_PROC_LINK", "n"),
    wish("UCX_TLS", "^cma"),
    wish("UCX_TCP_PUT_ENABLE", "n"),
];

/// Variable with the names of the added variables, separated by commas. If it is set, the process has executed itself.
const ADDED: &str = "STASIS_LOWER_ENV";

/// Beginning of the variable with a user's value that was replaced.
const USERS: &str = "STASIS_USERS_";

/// What becomes of the environment.
#[derive(Debug, Default, PartialEq)]
struct Changes {
    /// Variables to add.
    added: BTreeMap<&'static str, &'static str>,
    /// Users' values that are replaced.
    replaced: BTreeMap<&'static str, OsString>,
}

impl Changes {
    /// `has` tells whether the program has a function, and `is_apart` whether each rank has a user namespace of its
    /// own.
    fn of(
        environment: impl Fn(&str) -> Option<OsString>,
        has: impl Fn(&'static CStr) -> bool,
        is_apart: bool,
    ) -> Changes {
        let mut changes = Changes::default();
        let apart = APART.into_iter().filter(|_| is_apart);
        for setting in SETTINGS.into_iter().chain(apart) {
            let Setting {
                name, value, keeps, ..
            } = setting;
            if setting.reached_by.iter().any(|function| has(function)) {
                continue;
            }
            match environment(name) {
                Some(users) if keeps(&users.to_string_lossy()) => continue,
                Some(users) => {
                    changes.replaced.insert(name, users);
                }
                None => {}
            }
            changes.added.insert(name, value);
        }
        changes
    }

    /// The variables to set, where those of a list are added already.
    fn variables(&self, mut added: String) -> Vec<(String, OsString)> {
        for name in self.added.keys() {
            let comma = if added.is_empty() { "" } else { "," };
            added.extend([comma, name]);
        }
        let own = self.added.iter();
        let own = own.map(|(name, value)| ((*name).to_owned(), value.into()));
        let users = self.replaced.iter();
        let users = users.map(|(name, value)| (format!("{USERS}{name}"), value.clone()));
        let list = (ADDED.to_owned(), added.into());
        own.chain(users).chain([list]).collect()
    }

    /// Sets the variables in this process.
    fn set_here(&self) {
        let added = std::env::var(ADDED).unwrap_or_default();
        for (name, value) in self.variables(added) {
            std::env::set_var(name, value);
        }
    }

    fn say(&self) {
        for Setting {
            name, value, harm, ..
        } in SETTINGS
        {
            let Some(users) = self.replaced.get(name) else {
                continue;
            };
            launcher::message::say(format_args!(
                "{name}={} is ignored, and {name}={value} used: with it the MPI library would {harm}; unset it for \
                 jobs under Stasis",
                users.display()
            ));
        }
    }
}

/// Loads the MPI library with its variables: the one that `stasis` has chosen, if this lower half can use any. Executes
/// this process again if it was started without the variables.
pub fn load(library: Option<&Path>) -> Result<()> {
    let comes_later = mpi::ANY_LIBRARY.is_some();
    if std::env::var_os(ADDED).is_none() {
        return execute_again(&needed(|name| {
            is_told_by(name) || (comes_later && name == UCX)
        }));
    }
    mpi::load(library)?;
    if comes_later {
        needed(is_told_by).set_here();
    }
    Ok(())
}

/// The changes that the environment still needs. The first rank says what they mean for the user.
fn needed(has: impl Fn(&'static CStr) -> bool) -> Changes {
    let is_apart = launcher::is_apart_from_launcher();
    let changes = Changes::of(|name| std::env::var_os(name), has, is_apart);
    if launcher::is_first() {
        changes.say();
    }
    changes
}

/// Executes this process with the variables.
fn execute_again(changes: &Changes) -> Result<()> {
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let mut arguments = std::env::args_os();
    let mut again = Command::new(own);
    again
        .arg0(arguments.next().unwrap_or_default())
        .args(arguments)
        .envs(changes.variables(String::new()));
    // The application itself may have executed a program with LD_PRELOAD.
    preload::stash(&mut again);
    Err(again.exec()).context("cannot execute the lower half again")
}

/// The application's environment.
pub fn of_application() -> Vec<(OsString, OsString)> {
    let added = std::env::var(ADDED).unwrap_or_default();
    let ours = |name: &OsStr| {
        name.to_str()
            .is_some_and(|name| name == ADDED || added.split(',').any(|a| a == name))
    };
    std::env::vars_os()
        .filter(|(name, _)| !ours(name))
        .map(|(name, value)| (name_for_application(&name), value))
        .collect()
}

fn name_for_application(name: &OsStr) -> OsString {
    let users = name.to_str().and_then(|name| name.strip_prefix(USERS));
    users.map_or_else(|| preload::name_for_application(name), OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(environment: &[(&str, &str)], functions: &[&CStr]) -> Changes {
        let value = |name: &str| {
            let set = environment.iter().find(|(set, _)| *set == name);
            set.map(|(_, value)| value.into())
        };
        Changes::of(value, |function| functions.contains(&function), false)
    }

    #[test]
    fn ranks_with_namespaces_of_their_own_do_not_read_each_other() {
        let users = |name: &str| (name == "UCX_TLS").then(|| "tcp,self".into());
        let changes = Changes::of(users, |_| false, true);
        assert_eq!(changes.added["UCX_POSIX_USE_PROC_LINK"], "n");
        assert!(!changes.added.contains_key("UCX_TLS"));
        let changes = Changes::of(|_| None, |_| false, true);
        assert_eq!(changes.added["UCX_TLS"], "^cma");
        assert_eq!(changes.added["UCX_TCP_PUT_ENABLE"], "n");
        let changes = Changes::of(|_| None, |_| false, false);
        assert!(!changes.added.contains_key("UCX_TLS"));
    }

    #[test]
    fn a_variable_that_follows_joins_the_list() {
        let changes = changes(&[("UCX_MEM_EVENTS", "y")], &[OPEN_MPI]);
        let first = changes.variables(String::new());
        let list = |variables: &[(String, OsString)]| {
            let (name, list) = variables.last().cloned().unwrap();
            assert_eq!(name, ADDED);
            list.into_string().unwrap()
        };
        let names: Vec<_> = changes.added.keys().copied().collect();
        assert_eq!(list(&first), names.join(","));
        let set = BTreeMap::from([("UCX_MEM_EVENTS", "n")]);
        let later = Changes {
            replaced: BTreeMap::from([("UCX_MEM_EVENTS", "y".into())]),
            added: set,
        };
        let later = later.variables(list(&first));
        assert_eq!(list(&later), format!("{},UCX_MEM_EVENTS", names.join(",")));
        let users = (format!("{USERS}UCX_MEM_EVENTS"), "y".into());
        assert!(later.contains(&users));
        assert!(later.contains(&("UCX_MEM_EVENTS".into(), "n".into())));
    }

    #[test]
    fn nothing_follows_what_is_set() {
        let first = changes(&[], &[UCX]);
        let value = |name: &str| first.added.get(name).map(OsString::from);
        let later = Changes::of(value, |_| false, false);
        let names: Vec<_> = later.added.keys().copied().collect();
        assert_eq!(names, ["UCX_MEM_EVENTS"]);
        assert!(later.replaced.is_empty());
    }

    #[test]
    fn caches_that_are_told_stay() {
        let changes = changes(&[("UCX_MEM_EVENTS", "y")], &[OPEN_MPI]);
        assert!(changes.replaced.is_empty());
        assert!(!changes.added.contains_key("UCX_MEM_EVENTS"));
        assert!(!changes.added.contains_key("OMPI_MCA_mpi_leave_pinned"));
        assert_eq!(changes.added["FI_MR_CACHE_MONITOR"], "disabled");
    }

    #[test]
    fn hooks_in_the_other_c_library_are_not_used() {
        let changes = changes(
            &[("FI_MR_CACHE_MONITOR", "memhooks"), ("UCX_MEM_EVENTS", "y")],
            &[],
        );
        assert_eq!(changes.added["FI_MR_CACHE_MONITOR"], "disabled");
        assert_eq!(changes.added["UCX_MEM_EVENTS"], "n");
        assert_eq!(changes.replaced["FI_MR_CACHE_MONITOR"], "memhooks");
        assert_eq!(changes.replaced.len(), 2);
    }

    #[test]
    fn hwloc_looks_for_no_gpu() {
        let users = "-linuxio,-cuda,-opencl";
        assert!(changes(&[("HWLOC_COMPONENTS", users)], &[])
            .replaced
            .is_empty());
        let changes = changes(&[("HWLOC_COMPONENTS", "x86")], &[]);
        assert!(changes.added["HWLOC_COMPONENTS"].contains("-cuda"));
        assert!(changes.replaced.contains_key("HWLOC_COMPONENTS"));
        let harm = SETTINGS.iter().find(|s| s.name == "HWLOC_COMPONENTS");
        assert!(harm.is_some_and(|setting| setting.harm.contains("GPUs")));
    }

    #[test]
    fn harmless_values_of_the_user_stay() {
        let changes = changes(
            &[
                ("FI_MR_CACHE_MONITOR", "kdreg2"),
                ("OMPI_MCA_sharedfp", "lockedfile"),
                ("UCX_MEM_EVENTS", "no"),
            ],
            &[],
        );
        assert!(changes.replaced.is_empty());
        assert_eq!(changes.added.len(), SETTINGS.len() - 3);
    }

    #[test]
    fn the_application_gets_its_own_value_back() {
        let name = OsString::from(format!("{USERS}UCX_MEM_EVENTS"));
        assert_eq!(name_for_application(&name), "UCX_MEM_EVENTS");
    }
}
