//! Looks at the MPI library that `$MPICC` compiles for (`mpicc` if unset; mpi-sys binds the same
//! one) and generates what depends on it: the adapter functions, the pool of trampolines for
//! user-defined operations, and C tables of the library's handles and constants, which only a C
//! compiler knows for sure.
//!
//! With the feature `standard` no library is needed: the tables have the values of the standard ABI, and the functions
//! are found at run time (`common/mpi-abi`).
//!
//! To add a kind of library: its header is recognised in [`flavour`], and what is its own goes into a
//! `src/mpi/convert/native_*.rs`. Another library of a known kind needs nothing but `stasis build-lower`.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context};
use contract::abi;
use contract::HandleKind;

/// User-defined operations that can exist at a time.
const TRAMPOLINES: usize = 1024;

/// What libraries find in this program and not in their C library (`loader/src/interpose/signals/library_handlers.rs`).
const OF_SIGNALS: [&str; 6] = [
    "sigaction",
    "signal",
    "bsd_signal",
    "ssignal",
    "sysv_signal",
    "__sysv_signal",
];

/// The same of what changes files (`loader/src/interpose/file_changes/library_writes.rs`).
const OF_FILES: [&str; 18] = [
    "write",
    "writev",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev64",
    "pwritev2",
    "pwritev64v2",
    "ftruncate",
    "ftruncate64",
    "fallocate",
    "fallocate64",
    "posix_fallocate",
    "posix_fallocate64",
    "aio_write",
    "aio_write64",
    "lio_listio",
    "lio_listio64",
];

/// The functions of UCX and libfabric that this program replaces for MPICH (`src/mpi/progress_turn.rs`,
/// `src/mpi/ucx_memory.rs`).
const OF_NETWORKS: [&str; 4] = [
    "ucp_worker_progress",
    "ucp_mem_map",
    "ucp_mem_query",
    "fi_fabric",
];

fn main() -> anyhow::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPICC");
    println!(
        "cargo::rustc-check-cfg=cfg(native_mpi, values(\"openmpi\", \"mpich\", \"standard\"))"
    );
    let out = PathBuf::from(std::env::var("OUT_DIR").context("OUT_DIR is not set")?);
    let library = match std::env::var_os("CARGO_FEATURE_STANDARD") {
        Some(_) => Library::Standard,
        None => Library::of_compiler(&out)?,
    };
    println!("cargo::rustc-cfg=native_mpi=\"{}\"", library.flavour());

    let adapter = mpi_table::generate::adapter(|name| library.declares(name));
    write(&out.join("adapter.rs"), &adapter)?;
    write(&out.join("contents.rs"), &mpi_table::generate::contents())?;
    write(&out.join("trampolines.rs"), &trampolines())?;

    let exported = out.join("exported.list");
    let mut names = [&OF_SIGNALS[..], &OF_FILES].concat();
    if library.flavour() != "openmpi" {
        names.extend(OF_NETWORKS);
    }
    let names = names.join("; ");
    write(&exported, &format!("{{ {names}; }};\n"))?;
    println!(
        "cargo::rustc-link-arg=-Wl,--dynamic-list={}",
        exported.display()
    );

    let tables = out.join("tables.c");
    write(&tables, &c_tables(&library))?;
    let mut build = cc::Build::new();
    if let Library::OfCompiler { mpicc, .. } = &library {
        build.compiler(mpicc);
    }
    build.file(&tables).try_compile("stasis_tables")?;
    Ok(())
}

/// The MPI library that the lower half is built for.
enum Library {
    /// The one that this compiler compiles for.
    OfCompiler {
        mpicc: String,
        flavour: &'static str,
        /// Functions in its header.
        declared: HashSet<String>,
    },
    /// Any of the standard ABI.
    Standard,
}

impl Library {
    fn of_compiler(out: &Path) -> anyhow::Result<Library> {
        let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
        run_with_the_library(&mpicc, out)?;
        let macros = preprocess(&mpicc, out, &["-dM"])?;
        let declared = declared_functions(&preprocess(&mpicc, out, &[])?);
        let flavour = flavour(&mpicc, &macros)?;
        Ok(Library::OfCompiler {
            mpicc,
            flavour,
            declared,
        })
    }

    fn flavour(&self) -> &'static str {
        match self {
            Library::OfCompiler { flavour, .. } => flavour,
            Library::Standard => "standard",
        }
    }

    fn declares(&self, name: &str) -> bool {
        match self {
            Library::OfCompiler { declared, .. } => declared.contains(name),
            Library::Standard => {
                let mut functions = mpi_table::functions().iter();
                functions.any(|function| function.name == name && function.is_of_standard_abi())
            }
        }
    }

    /// A constant in C, whose value in the standard ABI is `standard`.
    fn constant(&self, name: &str, standard: &str) -> String {
        match (self, name) {
            (Library::OfCompiler { .. }, _) => name.to_owned(),
            (Library::Standard, "MPI_DISTRIBUTE_DFLT_DARG") => DFLT_DARG.to_string(),
            (Library::Standard, _) => standard.to_owned(),
        }
    }
}

const DISTRIBUTION_ARGUMENTS: &str = "distribution arguments";

/// The only constant for which Stasis has not the standard's value (`contract::abi`).
const DFLT_DARG: i32 = 19;

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// What the library's compiler makes of `mpi.h`.
fn preprocess(mpicc: &str, out: &Path, flags: &[&str]) -> anyhow::Result<String> {
    let probe = out.join("probe.c");
    write(&probe, "#include <mpi.h>\n")?;
    let output = Command::new(mpicc)
        .arg("-E")
        .args(flags)
        .arg(&probe)
        .output()
        .with_context(|| format!("cannot run `{mpicc}`: install an MPI library or set MPICC"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{mpicc}` cannot preprocess mpi.h; is its -dev package installed?\n{complaint}");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program that says where the MPI library is that it runs with.
const WHERE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    Dl_info found;
    /* Never called so, but linked. */
    if (argc > 1)
        MPI_Init(&argc, &argv);
    if (!dladdr(dlsym(RTLD_DEFAULT, "MPI_Init"), &found))
        return 1;
    return puts(found.dli_fname) < 0;
}
"#;

/// Folders that need no naming: the dynamic linker looks there by itself.
const SYSTEM: [&str; 3] = ["/lib", "/usr/lib", "/usr/lib64"];

/// Makes the lower half find the library of this very compiler, whatever LD_LIBRARY_PATH names for
/// the application: several libraries share one SONAME.
fn run_with_the_library(mpicc: &str, out: &Path) -> anyhow::Result<()> {
    let (source, program) = (out.join("where.c"), out.join("where"));
    write(&source, WHERE)?;
    let mut compile = Command::new(mpicc);
    compile.arg(&source).arg("-o").arg(&program).arg("-ldl");
    let compiled = compile
        .output()
        .with_context(|| format!("cannot run `{mpicc}`"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !compiled.status.success() {
        bail!(
            "`{mpicc}` cannot link a program\n{}",
            text(&compiled.stderr)
        );
    }
    let answer = Command::new(&program).output()?;
    if !answer.status.success() {
        let complaint = text(&answer.stderr);
        bail!("a program that `{mpicc}` links does not find its MPI library\n{complaint}");
    }
    let library = PathBuf::from(text(&answer.stdout));
    let folder = library.parent().context("a library lies in a folder")?;
    let is_system = |parent: &str| {
        let inside = folder.strip_prefix(parent);
        inside.is_ok_and(|rest| rest.components().count() <= 1)
    };
    if !SYSTEM.into_iter().any(is_system) {
        println!(
            "cargo::rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{}",
            folder.display()
        );
    }
    Ok(())
}

/// Which of the two native ABIs of libraries the header describes.
fn flavour(mpicc: &str, macros: &str) -> anyhow::Result<&'static str> {
    let defines = |name| {
        macros
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some(name))
    };
    if defines("OPEN_MPI") {
        Ok("openmpi")
    } else if defines("MPICH_VERSION") || defines("I_MPI_VERSION") {
        Ok("mpich")
    } else {
        bail!("`{mpicc}` is of an MPI that is neither Open MPI nor of MPICH's family")
    }
}

/// Names that stand before a parenthesis in the preprocessed header.
fn declared_functions(header: &str) -> HashSet<String> {
    header
        .split('(')
        .filter_map(|before| before.split_whitespace().last())
        .filter(|name| name.starts_with("MPI_"))
        .map(str::to_owned)
        .collect()
}

/// An array expression of all instances of the generic trampoline.
fn trampolines() -> String {
    let all: Vec<String> = (0..TRAMPOLINES)
        .map(|number| format!("trampoline::<{number}>"))
        .collect();
    format!("[{}]", all.join(",\n"))
}

/// `("MPI_NAME", abi::NAME)` for each.
macro_rules! named {
    ($($name:ident)*) => {
        &[$((concat!("MPI_", stringify!($name)), abi::$name)),*]
    };
}

/// A group of constants: its title, whether it is optional, and the standard's values.
type Group = (&'static str, bool, &'static [(&'static str, i32)]);

/// Groups of constants, in the order of `values::Group`. Of the optional ones not every library has
/// every name; their names are macros in all of them, so that the preprocessor can tell.
const GROUPS: &[Group] = &[
    (
        "error classes",
        true,
        named! {
            ERR_BUFFER ERR_COUNT ERR_TYPE ERR_TAG ERR_COMM ERR_RANK ERR_REQUEST ERR_ROOT ERR_GROUP
            ERR_OP ERR_TOPOLOGY ERR_DIMS ERR_ARG ERR_UNKNOWN ERR_TRUNCATE ERR_OTHER ERR_INTERN
            ERR_PENDING ERR_IN_STATUS ERR_ACCESS ERR_AMODE ERR_ASSERT ERR_BAD_FILE ERR_BASE
            ERR_CONVERSION ERR_DISP ERR_DUP_DATAREP ERR_FILE_EXISTS ERR_FILE_IN_USE ERR_FILE
            ERR_INFO_KEY ERR_INFO_NOKEY ERR_INFO_VALUE ERR_INFO ERR_IO ERR_KEYVAL ERR_LOCKTYPE
            ERR_NAME ERR_NO_MEM ERR_NOT_SAME ERR_NO_SPACE ERR_NO_SUCH_FILE ERR_PORT ERR_QUOTA
            ERR_READ_ONLY ERR_RMA_ATTACH ERR_RMA_CONFLICT ERR_RMA_RANGE ERR_RMA_SHARED ERR_RMA_SYNC
            ERR_SERVICE ERR_SIZE ERR_SPAWN ERR_UNSUPPORTED_DATAREP ERR_UNSUPPORTED_OPERATION
            ERR_WIN ERR_RMA_FLAVOR ERR_PROC_ABORTED ERR_VALUE_TOO_LARGE ERR_SESSION ERR_ERRHANDLER
            T_ERR_CANNOT_INIT T_ERR_NOT_ACCESSIBLE T_ERR_NOT_INITIALIZED T_ERR_NOT_SUPPORTED
            T_ERR_MEMORY T_ERR_INVALID T_ERR_INVALID_INDEX T_ERR_INVALID_ITEM T_ERR_INVALID_SESSION
            T_ERR_INVALID_HANDLE T_ERR_INVALID_NAME T_ERR_OUT_OF_HANDLES T_ERR_OUT_OF_SESSIONS
            T_ERR_CVAR_SET_NOT_NOW T_ERR_CVAR_SET_NEVER T_ERR_PVAR_NO_WRITE T_ERR_PVAR_NO_STARTSTOP
            T_ERR_PVAR_NO_ATOMIC
        },
    ),
    (
        "thread levels",
        false,
        named! { THREAD_SINGLE THREAD_FUNNELED THREAD_SERIALIZED THREAD_MULTIPLE },
    ),
    (
        "comparisons",
        false,
        named! { IDENT CONGRUENT SIMILAR UNEQUAL },
    ),
    (
        "topologies",
        false,
        named! { CART GRAPH DIST_GRAPH UNDEFINED },
    ),
    ("split types", false, named! { COMM_TYPE_SHARED UNDEFINED }),
    ("orders", false, named! { ORDER_C ORDER_FORTRAN }),
    (
        "distributions",
        false,
        named! { DISTRIBUTE_NONE DISTRIBUTE_BLOCK DISTRIBUTE_CYCLIC },
    ),
    (
        DISTRIBUTION_ARGUMENTS,
        false,
        named! { DISTRIBUTE_DFLT_DARG },
    ),
    (
        "combiners",
        false,
        named! {
            COMBINER_NAMED COMBINER_DUP COMBINER_CONTIGUOUS COMBINER_VECTOR COMBINER_HVECTOR
            COMBINER_INDEXED COMBINER_HINDEXED COMBINER_INDEXED_BLOCK COMBINER_HINDEXED_BLOCK
            COMBINER_STRUCT COMBINER_SUBARRAY COMBINER_DARRAY COMBINER_F90_REAL
            COMBINER_F90_COMPLEX COMBINER_F90_INTEGER COMBINER_RESIZED
        },
    ),
    (
        "type classes",
        false,
        named! { TYPECLASS_INTEGER TYPECLASS_REAL TYPECLASS_COMPLEX },
    ),
    ("lock types", false, named! { LOCK_EXCLUSIVE LOCK_SHARED }),
    (
        "window assertions",
        false,
        named! { MODE_NOCHECK MODE_NOPRECEDE MODE_NOPUT MODE_NOSTORE MODE_NOSUCCEED },
    ),
    (
        "access modes",
        false,
        named! {
            MODE_APPEND MODE_CREATE MODE_DELETE_ON_CLOSE MODE_EXCL MODE_RDONLY MODE_RDWR
            MODE_SEQUENTIAL MODE_UNIQUE_OPEN MODE_WRONLY
        },
    ),
    ("whence", false, named! { SEEK_CUR SEEK_END SEEK_SET }),
    (
        "keyvals",
        false,
        named! {
            KEYVAL_INVALID TAG_UB IO HOST WTIME_IS_GLOBAL APPNUM LASTUSEDCODE UNIVERSE_SIZE
            WIN_BASE WIN_DISP_UNIT WIN_SIZE WIN_CREATE_FLAVOR WIN_MODEL
        },
    ),
    (
        "verbosities of variables",
        false,
        named! {
            T_VERBOSITY_USER_BASIC T_VERBOSITY_USER_DETAIL T_VERBOSITY_USER_ALL
            T_VERBOSITY_TUNER_BASIC T_VERBOSITY_TUNER_DETAIL T_VERBOSITY_TUNER_ALL
            T_VERBOSITY_MPIDEV_BASIC T_VERBOSITY_MPIDEV_DETAIL T_VERBOSITY_MPIDEV_ALL
        },
    ),
    (
        "what variables are bound to",
        false,
        named! {
            T_BIND_NO_OBJECT T_BIND_MPI_COMM T_BIND_MPI_DATATYPE T_BIND_MPI_ERRHANDLER
            T_BIND_MPI_FILE T_BIND_MPI_GROUP T_BIND_MPI_OP T_BIND_MPI_REQUEST T_BIND_MPI_WIN
            T_BIND_MPI_MESSAGE T_BIND_MPI_INFO
        },
    ),
    (
        "scopes of variables",
        false,
        named! {
            T_SCOPE_CONSTANT T_SCOPE_READONLY T_SCOPE_LOCAL T_SCOPE_GROUP T_SCOPE_GROUP_EQ
            T_SCOPE_ALL T_SCOPE_ALL_EQ
        },
    ),
    (
        "classes of performance variables",
        false,
        named! {
            T_PVAR_CLASS_STATE T_PVAR_CLASS_LEVEL T_PVAR_CLASS_SIZE T_PVAR_CLASS_PERCENTAGE
            T_PVAR_CLASS_HIGHWATERMARK T_PVAR_CLASS_LOWWATERMARK T_PVAR_CLASS_COUNTER
            T_PVAR_CLASS_AGGREGATE T_PVAR_CLASS_TIMER T_PVAR_CLASS_GENERIC
        },
    ),
];

/// Predefined handles by kind.
const HANDLES: &[(HandleKind, &[(&str, usize)])] = &[
    (HandleKind::Comm, abi::comm::ALL),
    (HandleKind::Group, abi::group::ALL),
    (HandleKind::Datatype, abi::datatype::ALL),
    (HandleKind::Op, abi::op::ALL),
    (HandleKind::Errhandler, abi::errhandler::ALL),
    (HandleKind::Info, abi::info::ALL),
    (HandleKind::Request, abi::request::ALL),
    (HandleKind::Message, abi::message::ALL),
    (HandleKind::Win, abi::win::ALL),
    (HandleKind::File, abi::file::ALL),
];

/// C source with the tables that `values.rs` and `predefined.rs` read.
fn c_tables(library: &Library) -> String {
    let mut text = "/* Generated by build.rs; do not edit. */\n#include <stdint.h>\n".to_owned();
    write_c_tables(&mut text, library).expect("writing to a string cannot fail");
    text
}

fn write_c_tables(text: &mut String, library: &Library) -> std::fmt::Result {
    if let Library::OfCompiler { .. } = library {
        writeln!(text, "#include <mpi.h>\n")?;
    }
    writeln!(
        text,
        "const struct {{ int group, standard, native; }} stasis_values[] = {{"
    )?;
    for (number, (title, optional, values)) in GROUPS.iter().enumerate() {
        writeln!(text, "/* {title} */")?;
        for (name, standard) in *values {
            let native = library.constant(name, &standard.to_string());
            let line = format!("{{{number}, {standard}, (int)({native})}},");
            write_line(text, library, name, *optional, &line)?;
        }
    }
    if let Library::Standard = library {
        // A block size that this ABI cannot express: the library must refuse it, and not take it for the default.
        let is_it = |(title, ..): &Group| *title == DISTRIBUTION_ARGUMENTS;
        let number = GROUPS.iter().position(is_it).unwrap_or_default();
        writeln!(text, "{{{number}, {DFLT_DARG}, -1}},")?;
    }
    writeln!(text, "{{-1, 0, 0}}}};\n")?;
    writeln!(
        text,
        "const struct {{ uint32_t kind; uint64_t standard; uintptr_t native; }}"
    )?;
    writeln!(text, "    stasis_handles[] = {{")?;
    for (kind, handles) in HANDLES {
        for (name, standard) in *handles {
            let kind = *kind as u32;
            let native = library.constant(name, &standard.to_string());
            let line = format!("{{{kind}, {standard:#x}, (uintptr_t)({native})}},");
            write_line(text, library, name, true, &line)?;
        }
    }
    writeln!(text, "{{UINT32_MAX, 0, 0}}}};\n")?;
    for (function, name, standard) in [
        ("stasis_unweighted", "MPI_UNWEIGHTED", abi::UNWEIGHTED),
        (
            "stasis_weights_empty",
            "MPI_WEIGHTS_EMPTY",
            abi::WEIGHTS_EMPTY,
        ),
    ] {
        let native = library.constant(name, &standard.to_string());
        writeln!(text, "int *{function}(void) {{ return (int *){native}; }}")?;
    }
    Ok(())
}

fn write_line(
    text: &mut String,
    library: &Library,
    name: &str,
    optional: bool,
    line: &str,
) -> std::fmt::Result {
    match (optional, library) {
        (true, Library::OfCompiler { .. }) => writeln!(text, "#ifdef {name}\n{line}\n#endif"),
        _ => writeln!(text, "{line}"),
    }
}
