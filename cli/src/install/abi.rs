//! The ABIs of MPI libraries. Each has a front.

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
}
