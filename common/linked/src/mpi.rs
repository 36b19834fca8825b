//! The names of MPI libraries, and the ABI of each. To serve one more name: a line of `NAMES` or `VENDORS`. To add
//! a front: its crate under `upper-half/fronts/`, an [`Abi`], and `xtask setup` to build it.

/// An ABI of applications, with its own front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// ABI of Open MPI.
    Openmpi,
    /// ABI of MPICH, Intel MPI, MVAPICH and Cray MPICH.
    Mpich,
    /// Standard ABI of MPI 5.0.
    Standard,
}

impl Abi {
    /// All ABIs.
    pub const ALL: [Abi; 3] = [Abi::Openmpi, Abi::Mpich, Abi::Standard];

    /// Name in file names and manifests.
    pub fn key(self) -> &'static str {
        match self {
            Abi::Openmpi => "openmpi",
            Abi::Mpich => "mpich",
            Abi::Standard => "standard",
        }
    }

    /// File name of its front.
    pub fn front(self) -> String {
        format!("front-{}.so", self.key())
    }
}

/// SONAMEs of libraries with MPI's C functions. Stasis stands in for them.
const NAMES: [(&str, Abi); 6] = [
    ("libmpi.so.40", Abi::Openmpi),
    ("libmpi_mpifh.so.40", Abi::Openmpi),
    ("libmpich.so.12", Abi::Mpich),
    ("libmpi.so.12", Abi::Mpich),
    ("libmpi_abi.so.1", Abi::Standard),
    ("libmpi_abi.so.0", Abi::Standard),
];

/// Compilers by which vendors name their builds of one library, as in `libmpi_gnu_123.so.12`: HPE Cray's wrappers link
/// with such names. The version is that of the MPICH ABI.
const VENDORS: [&str; 8] = [
    "amd",
    "aocc",
    "cray",
    "crayclang",
    "gnu",
    "intel",
    "nvidia",
    "pgi",
];

/// MPICH's Fortran layer, without the version. It imports every function of its library, even those that no program
/// calls.
const FORTRAN: [&str; 2] = ["libmpichfort", "libmpifort"];

/// Other libraries of an MPI installation that programs load on top of a front, without the version. They, too, import
/// every function.
const LAYERS: [&str; 5] = [
    "libmpichcxx",
    "libmpicxx",
    "libmpi_usempif08",
    "libmpi_usempi_ignore_tkr",
    "libmpi_cxx",
];

/// ABI of the MPI library with this SONAME, if Stasis stands in for it.
pub fn abi(soname: &str) -> Option<Abi> {
    let known = NAMES.iter().find(|(name, _)| *name == soname);
    known.map(|(_, abi)| *abi).or_else(|| {
        let build = soname.strip_prefix("libmpi_")?.strip_suffix(".so.12")?;
        is_vendors(build).then_some(Abi::Mpich)
    })
}

/// Whether the text is a vendor's compiler, maybe with a version: `gnu_123`.
fn is_vendors(build: &str) -> bool {
    let (compiler, version) = build.split_once('_').unwrap_or((build, "0"));
    VENDORS.contains(&compiler) && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a file of this name is an MPI library that Stasis stands in for: a SONAME, with or without the version
/// suffix of the file.
pub fn is_mpi(file: &str) -> bool {
    let ends = file.match_indices('.').map(|(at, _)| at);
    ends.chain([file.len()])
        .any(|end| abi(&file[..end]).is_some())
}

/// Whether a file of this name is MPICH's Fortran layer, also a vendor's.
pub fn is_fortran_layer(file: &str) -> bool {
    let stem = stem(file);
    FORTRAN.iter().any(|layer| match stem.strip_prefix(layer) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('_').is_some_and(is_vendors),
        None => false,
    })
}

/// Whether programs load a file of this name on top of a front.
pub fn is_layer(file: &str) -> bool {
    is_fortran_layer(file) || LAYERS.contains(&stem(file))
}

/// Beginnings of the names of libraries that stand beside an MPI library, with none of its C functions: other
/// languages, tools, GPUs (HPE Cray's `libmpi_gtl_cuda`).
const BESIDE: [&str; 7] = [
    "libmpi_gtl",
    "libmpi_usempi",
    "libmpi_mpifh",
    "libmpi_cxx",
    "libmpi_java",
    "libmpi_f77",
    "libmpi_f90",
];

/// Whether a file of this name, which is not there to be looked into, must be taken for an MPI library, whether Stasis
/// stands in for it or not.
pub fn is_named_mpi(file: &str) -> bool {
    let stem = stem(file);
    let own = ["libmpi", "libmpich"].contains(&stem) || stem.starts_with("libmpi_");
    own && !BESIDE.iter().any(|beside| stem.starts_with(beside))
}

/// The name under which Stasis would stand in for a library of another name, if its version tells the ABI.
pub fn by_version(file: &str) -> Option<&'static str> {
    let (_, version) = file.split_once(".so.")?;
    match version.split('.').next()? {
        "12" => Some("libmpi.so.12"),
        "40" => Some("libmpi.so.40"),
        _ => None,
    }
}

fn stem(file: &str) -> &str {
    file.split_once(".so").map_or(file, |(stem, _)| stem)
}

/// The SONAMEs for which Stasis stands in, for a message.
pub fn known() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    format!("{} and vendors' libmpi_COMPILER.so.12", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_recognised_by_name() {
        for name in [
            "libmpi.so.40",
            "libmpi.so.40.30.4",
            "libmpich.so.12.2.2",
            "libmpi_gnu_123.so.12",
            "libmpi_cray.so.12.0.0",
        ] {
            assert!(is_mpi(name), "{name}");
        }
        for name in [
            "libmpi.so.400",
            "libmpi_cxx.so.40",
            "libmpi_ilp64.so.12",
            "libmpi_gtl_cuda.so.0",
            "libc.so.6",
            "",
        ] {
            assert!(!is_mpi(name), "{name}");
        }
    }

    #[test]
    fn missing_libraries_are_judged_by_name() {
        for name in [
            "libmpi_foo.so.12",
            "libmpi.so.80",
            "libmpi_ilp64.so",
            "libmpich.so.3",
        ] {
            assert!(is_named_mpi(name), "{name}");
        }
        for name in [
            "libmpi_gtl_hsa.so.0",
            "libmpi_usempif08_x.so.1",
            "libmpifoo.so.1",
            "libm.so.6",
        ] {
            assert!(!is_named_mpi(name), "{name}");
        }
        assert_eq!(by_version("libmpi_foo.so.12.1"), Some("libmpi.so.12"));
        assert_eq!(by_version("libmpi.so.20"), None);
    }

    #[test]
    fn builds_of_vendors_have_the_abi_of_mpich() {
        for name in [
            "libmpi_cray.so.12",
            "libmpi_gnu_91.so.12",
            "libmpi_intel.so.12",
            "libmpi_intel_2023.so.12",
            "libmpi_nvidia.so.12",
            "libmpi_amd.so.12",
        ] {
            assert_eq!(abi(name), Some(Abi::Mpich), "{name}");
        }
        assert_eq!(abi("libmpi_gnu_123.so.40"), None);
    }

    #[test]
    fn layers_are_recognised_by_name() {
        for name in [
            "libmpifort.so.12",
            "libmpichfort.so.12.2.2",
            "libmpifort_gnu_123.so.12",
            "libmpifort_cray.so.12",
        ] {
            assert!(is_fortran_layer(name) && is_layer(name), "{name}");
        }
        assert!(is_layer("libmpi_cxx.so.40"));
        assert!(!is_fortran_layer("libmpi_cxx.so.40"));
        assert!(!is_layer("libmpi_gnu_123.so.12"));
    }
}
