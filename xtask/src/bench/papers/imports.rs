//! Functions of MPI that Debian's programs import, sorted by the features of paper 001, chapter 3.

use super::page::{Outcome, Row};
use crate::build::setup;
use anyhow::{ensure, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Programs: name, the file with the calls, and its package.
const PROGRAMS: [(&str, &str, &str); 6] = [
    (
        "LAMMPS",
        "/usr/lib/x86_64-linux-gnu/liblammps.so.0",
        "lammps",
    ),
    ("Quantum ESPRESSO", "/usr/bin/pw.x", "quantum-espresso"),
    ("NetPIPE", "/usr/bin/NPopenmpi", "netpipe-openmpi"),
    ("CP2K", "/usr/bin/cp2k.popt", "cp2k"),
    ("HPCC", "/usr/bin/hpcc", "hpcc"),
    ("NWChem", "/usr/bin/nwchem.openmpi", "nwchem-openmpi"),
];

/// Features, each with beginnings of its functions' names. The first that fits counts.
const FEATURES: [(&str, &str); 11] = [
    ("tools", "T_ Pcontrol"),
    ("persistent", "Send_init Bsend_init Ssend_init Rsend_init Recv_init Start"),
    ("one-sided", "Win_ Put Rput Get_accumulate Rget Accumulate Raccumulate Fetch_ Compare_"),
    ("files", "File_"),
    ("topologies", "Cart Graph_ Dist_graph Dims_ Topo_ Neighbor_ Ineighbor_"),
    ("processes", "Comm_spawn Comm_accept Comm_connect Comm_join Open_port"),
    ("errors", "Comm_set_errhandler Errhandler_ Comm_create_errhandler Comm_call_errhandler"),
    (
        "communicators and groups",
        "Comm_create Comm_split Comm_dup Comm_idup Group_ Intercomm_",
    ),
    ("datatypes", "Type_ Pack Unpack"),
    (
        "collective",
        "Allreduce Reduce Allgather Gather Alltoall Barrier Bcast Scan Exscan Scatter Iallreduce Ireduce Iallgather \
         Igather Ialltoall Ibarrier Ibcast Iscan Iexscan Iscatter",
    ),
    (
        "point-to-point",
        "Send Isend Recv Irecv Ssend Issend Rsend Irsend Bsend Ibsend Probe Iprobe Mprobe Mrecv Wait Test",
    ),
];

/// The feature that a function belongs to.
pub fn feature(function: &str) -> Option<&'static str> {
    let name = function.strip_prefix("MPI_")?;
    let mut features = FEATURES.iter();
    let has = |names: &str| {
        names
            .split(' ')
            .any(|beginning| name.starts_with(beginning))
    };
    features
        .find(|(_, names)| has(names))
        .map(|(feature, _)| *feature)
}

/// What a program imports.
struct Imports {
    by_feature: BTreeMap<&'static str, BTreeSet<&'static str>>,
    is_fortran: bool,
    has_openmp: bool,
    /// Libraries that it loads and that call MPI.
    libraries: Vec<String>,
}

impl Imports {
    fn of(file: &str) -> Result<Imports> {
        let text = printed("nm", &["-D", "--undefined-only", file])?;
        let symbols = symbols(&text);
        let mut by_feature = BTreeMap::<_, BTreeSet<&str>>::new();
        for function in mpi_table::functions() {
            let name = function.name.as_str();
            let of_fortran = format!("{}_", name.to_lowercase());
            let is_imported = symbols.contains(name) || symbols.contains(of_fortran.as_str());
            if let Some(feature) = feature(name).filter(|_| is_imported) {
                by_feature
                    .entry(feature)
                    .or_default()
                    .insert(name.trim_start_matches("MPI_"));
            }
        }
        Ok(Imports {
            by_feature,
            is_fortran: symbols.contains("mpi_init_") || symbols.contains("mpi_init_thread_"),
            has_openmp: symbols.iter().any(|symbol| symbol.starts_with("GOMP_")),
            libraries: libraries(file)?,
        })
    }
}

fn printed(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{program} {arguments:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// The last words of the lines that `nm` prints.
fn symbols(text: &str) -> BTreeSet<&str> {
    let lines = text.lines();
    lines
        .filter_map(|line| line.split_whitespace().last())
        .collect()
}

/// The libraries that a file loads and that call MPI, without those of MPI itself, which define the functions.
fn libraries(file: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for line in printed("ldd", &[file])?.lines() {
        let Some((name, path)) = line.trim().split_once(" => ") else {
            continue;
        };
        let path = path.split(" (").next().unwrap_or_default();
        let text = printed("nm", &["-D", path])?;
        let of = |kind: char| {
            let functions = text.lines().filter(move |line| {
                let mut words = line.split_whitespace().rev();
                let name = words.next().unwrap_or_default().to_lowercase();
                let is_function = name == "mpi_comm_rank" || name == "mpi_comm_rank_";
                is_function && words.next() == Some(kind.encode_utf8(&mut [0; 4]))
            });
            functions.count() > 0
        };
        if of('U') && !of('T') && !of('W') {
            let name = name.split(".so").next().unwrap_or(name);
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

/// A row for each program, and one of all that this machine has.
fn rows(
    of_one: impl Fn(&Imports) -> String,
    of_all: impl Fn(&[Imports]) -> String,
) -> Result<Vec<Row>> {
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for (name, file, package) in PROGRAMS {
        if let Some(why) = setup::missing(Some(package)) {
            rows.push(Row::without(name, "", &why));
            continue;
        }
        let imports = Imports::of(file)?;
        rows.push(Row::new(name, "", Outcome::Seen(of_one(&imports))));
        all.push(imports);
    }
    rows.push(Row::new("all", "", Outcome::Seen(of_all(&all))));
    Ok(rows)
}

fn share(all: &[Imports], has: impl Fn(&Imports) -> bool) -> String {
    let with = all.iter().filter(|imports| has(imports)).count();
    format!("{with} of {}", all.len())
}

/// The languages of their calls, OpenMP, and libraries that call MPI.
pub fn languages() -> Result<Vec<Row>> {
    let of_one = |imports: &Imports| {
        let language = if imports.is_fortran {
            "Fortran"
        } else {
            "C or C++"
        };
        let model = if imports.has_openmp { ", OpenMP" } else { "" };
        let libraries = match imports.libraries.is_empty() {
            true => String::new(),
            false => format!("; {}", imports.libraries.join(", ")),
        };
        format!("{language}{model}{libraries}")
    };
    rows(of_one, |all| {
        let fortran = share(all, |imports| imports.is_fortran);
        let openmp = share(all, |imports| imports.has_openmp);
        let libraries = share(all, |imports| !imports.libraries.is_empty());
        format!("Fortran: {fortran}; OpenMP: {openmp}; libraries that call MPI: {libraries}")
    })
}

/// The functions of these features.
pub fn functions(features: &[&str]) -> Result<Vec<Row>> {
    let names = |imports: &Imports| {
        let names = features
            .iter()
            .filter_map(|feature| imports.by_feature.get(feature));
        let names: Vec<&str> = names.flatten().copied().collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    };
    rows(names, |all| {
        let has = |imports: &Imports| {
            features
                .iter()
                .any(|name| imports.by_feature.contains_key(name))
        };
        share(all, has)
    })
}

/// The features that are used, and by how many programs each.
pub fn features() -> Result<Vec<Row>> {
    let used = |imports: &Imports| Vec::from_iter(imports.by_feature.keys().copied()).join(", ");
    rows(used, |all| {
        let shares = FEATURES.iter().map(|(name, _)| {
            format!(
                "{name}: {}",
                share(all, |imports| imports.by_feature.contains_key(name))
            )
        });
        Vec::from_iter(shares).join("; ")
    })
}

#[cfg(test)]
mod tests {
    use super::feature;

    #[test]
    fn functions_have_features() {
        let of = |name: &str| feature(&format!("MPI_{name}"));
        assert_eq!(of("Send_init"), Some("persistent"));
        assert_eq!(of("Sendrecv"), Some("point-to-point"));
        assert_eq!(of("Comm_create_group"), Some("communicators and groups"));
        assert_eq!(of("Ialltoallv"), Some("collective"));
        assert_eq!(of("Comm_rank"), None);
    }
}
