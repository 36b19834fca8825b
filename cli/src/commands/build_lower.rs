//! `stasis build-lower`: builds a lower half for an installed MPI library, and puts it into the layout
//! (`install/layout.rs`) with a record of the launchers that it serves (`install/lower_registry.rs`).
//!
//! The sources are in each package. The build goes to a folder beside them, or to the user's cache where the sources
//! are read-only.
//!
//! All prerequisites are checked first; one message names the missing ones, with how to get them. A new kind of library
//! needs more than this command: its header is recognised here and in `lower-half/build.rs`, and code of its own is in
//! `lower-half/src/mpi/convert/native_*.rs`.

use std::ffi::OsStr;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{anyhow, bail, ensure, Context, Result};
use nix::unistd::{access, AccessFlags};
use serde::Deserialize;

use crate::args::BuildLower;
use crate::install::layout::Layout;
use crate::install::lower_registry::Record;
use crate::ui::exit::{self, Code, WithCode};
use linked::search;

/// Directory of the sources when this command was built.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// File in the build's folder that says for which library it is.
const STAMP: &str = "built-for";

/// Output of `stasis-lower about`.
#[derive(Deserialize)]
struct About {
    library: String,
    kind: String,
    /// Version of the argument, as in the record.
    #[serde(default)]
    spec_version: u32,
}

/// Prerequisites of a build.
struct Needs {
    mpicc: PathBuf,
    /// Macros of the library's mpi.h.
    macros: String,
    name: String,
    source: PathBuf,
    cargo: PathBuf,
}

/// Runs the command.
pub fn run(options: &BuildLower) -> exit::Result<()> {
    let layout = Layout::find().code(Code::CannotServe)?;
    build(options, &layout).code(Code::CannotServe)
}

fn build(options: &BuildLower, layout: &Layout) -> Result<()> {
    let needs = find(options, layout)?;
    let name = &needs.name;
    // Checked before minutes are spent on the build. A tree that was never installed does not have the folder yet.
    let lib = layout.place_for_lowers()?;
    say!(
        "building the lower half {name} with {} (some minutes, the first time)",
        needs.mpicc.display()
    );
    let target = target(&needs.source)?.join(format!("lower-{name}"));
    begin_with_another(&target);
    forget_another(&needs, &target)?;
    let mut cargo = Command::new(&needs.cargo);
    cargo.args(["build", "--release", "-p", "stasis-lower-half"]);
    if !options.detail.is_wanted() && !std::io::stderr().is_terminal() {
        cargo.arg("--quiet");
    }
    let status = cargo
        .env("MPICC", &needs.mpicc)
        .envs(prefix(&needs.mpicc))
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&needs.source)
        .status()
        .with_context(|| format!("{} cannot be run", needs.cargo.display()))?;
    ensure!(
        status.success(),
        "the lower half {name} could not be built ({status}): the compiler's messages are above"
    );
    let built = target.join("release/stasis-lower");
    let about = ask(&built)?;
    ensure!(
        about.spec_version == job_spec::VERSION,
        "the sources in {} are of another version of Stasis than this command: take those of its own version",
        needs.source.display()
    );
    let record = Record {
        library: about.library,
        kind: about.kind,
        launchers: folder(&needs.mpicc)?,
        spec_version: about.spec_version,
        mpicc: needs.mpicc,
    };
    let record_text = serde_json::to_vec_pretty(&record).context("writing a record")?;
    let place = lib.join(format!("lower-{name}"));
    install(&fs::read(&built)?, 0o755, &place)?;
    // The record is written last: a program without one is not taken for a lower half.
    install(
        &record_text,
        0o644,
        &place.with_file_name(format!("lower-{name}.json")),
    )?;
    say!(
        "{name}: {}\njobs that the launchers in {} start run over it, and others with --mpi {name}",
        record.library,
        record.launchers.display()
    );
    Ok(())
}

/// The folder of build outputs.
fn target(source: &Path) -> Result<PathBuf> {
    if access(source, AccessFlags::W_OK).is_ok() {
        return Ok(source.join("target"));
    }
    let cache = dirs::cache_dir().with_context(|| {
        format!(
            "nothing can be written to {}, and you have no home directory: set HOME",
            source.display()
        )
    })?;
    Ok(cache.join("stasis"))
}

/// Begins with what was built for another library, if nothing was built for this one yet: most crates are the same.
/// Without a copy they are built.
fn begin_with_another(target: &Path) {
    let (Some(folder), false) = (target.parent(), target.exists()) else {
        return;
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_whole = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(b"lower-") && path.join("release").is_dir() && path.join(STAMP).is_file()
    };
    let Some(other) = entries.map(|entry| entry.path()).find(is_whole) else {
        return;
    };
    let new = folder.join(format!("new-{}", std::process::id()));
    let copied = fs::create_dir(&new).and_then(|()| {
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto", "-t"]).arg(&new);
        copy.arg(other.join("release")).arg(other.join(STAMP));
        copy.stderr(Stdio::null()).status()
    });
    let whole = copied.is_ok_and(|status| status.success());
    if !whole || fs::rename(&new, target).is_err() {
        let _ = fs::remove_dir_all(&new);
    }
}

/// Discards the bindings of mpi-sys if the last build was for another compiler or version of the library, because
/// mpi-sys checks the compiler only once.
fn forget_another(needs: &Needs, target: &Path) -> Result<()> {
    let stamp = target.join(STAMP);
    let now = format!("{}\n{}", needs.mpicc.display(), needs.macros);
    if fs::read_to_string(&stamp).is_ok_and(|before| before == now) {
        return Ok(());
    }
    if target.exists() {
        let status = Command::new(&needs.cargo)
            .args(["clean", "--release", "--quiet", "-p", "mpi-sys"])
            .env("CARGO_TARGET_DIR", target)
            .current_dir(&needs.source)
            .status()
            .with_context(|| format!("{} cannot be run", needs.cargo.display()))?;
        ensure!(status.success(), "cargo clean failed ({status})");
    }
    let cannot = || format!("cannot write {}", stamp.display());
    fs::create_dir_all(target).with_context(cannot)?;
    fs::write(&stamp, now).with_context(cannot)
}

/// Finds all prerequisites, or names all missing ones.
fn find(options: &BuildLower, layout: &Layout) -> Result<Needs> {
    let mut missing = Vec::new();
    let mut need = |found: Result<PathBuf>| {
        found
            .map_err(|error| missing.push(launcher::message::reasons(error.as_ref())))
            .ok()
    };
    let source = need(sources(options.source.as_deref(), layout.source()));
    let cargo = need(cargo());
    need(libclang());
    let mpicc = need(compiler(options.mpicc.as_os_str()));
    let library = mpicc.as_deref().map(|mpicc| {
        let macros = header(mpicc)?;
        let name = options.name.clone();
        Ok((name.map_or_else(|| name_of(&macros), Ok)?, macros))
    });
    let library = library.and_then(|found: Result<_>| {
        found
            .map_err(|error| missing.push(launcher::message::reasons(error.as_ref())))
            .ok()
    });
    let found = (mpicc, library, source, cargo);
    let (Some(mpicc), Some((name, macros)), Some(source), Some(cargo)) = found else {
        return Err(list(&missing));
    };
    if !missing.is_empty() {
        return Err(list(&missing));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    ensure!(
        !name.is_empty() && name.chars().all(plain),
        "'{name}' cannot be the name of a lower half: letters, digits, '-', '.' and '_' can"
    );
    Ok(Needs {
        mpicc,
        macros,
        name,
        source,
        cargo,
    })
}

fn list(missing: &[String]) -> anyhow::Error {
    anyhow!(
        "a lower half cannot be built yet:\n  - {}",
        missing.join("\n  - ")
    )
}

fn sources(given: Option<&Path>, packaged: &Path) -> Result<PathBuf> {
    let found = match packaged.is_dir() {
        true => packaged,
        false => Path::new(SOURCE),
    };
    let source = given.unwrap_or(found);
    let manifest = source.join("lower-half/Cargo.toml");
    ensure!(
        manifest.is_file(),
        "the sources of Stasis are not in {}: say where they are with --source DIR",
        source.display()
    );
    Ok(source.canonicalize()?)
}

fn cargo() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    search::program(OsStr::new("cargo")).or_else(|_| {
        let installed = home.unwrap_or_default().join("bin/cargo");
        search::program(installed.as_os_str()).context(
            "Rust's cargo is in no directory of PATH: install Rust as https://rustup.rs says (no root needed)",
        )
    })
}

/// Finds libclang, with which mpi-sys reads mpi.h. bindgen has its own search; these are the usual places of
/// distributions and users.
fn libclang() -> Result<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("LIBCLANG_PATH").map(PathBuf::from));
    let config = Command::new("llvm-config").arg("--libdir").output();
    places.extend(config.ok().map(|output| {
        PathBuf::from(
            String::from_utf8_lossy(&output.stdout)
                .trim_end()
                .to_owned(),
        )
    }));
    for folder in ["/usr/lib", "/usr/lib64", "/usr/local"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let llvm = entries.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"llvm"));
        places.extend(llvm.map(|entry| entry.path().join("lib")));
    }
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    places.extend(usual.map(PathBuf::from));
    let is_it = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libclang") && name.contains(".so") && !name.starts_with("libclang-cpp")
    };
    let mut files = places.iter().flat_map(|place| {
        let inside = fs::read_dir(place).into_iter().flatten().flatten();
        std::iter::once(place.clone()).chain(inside.map(|entry| entry.path()))
    });
    files.find(|path| is_it(path)).context(
        "libclang, which reads the MPI library's header, is missing: install it (Debian: apt-get \
         install libclang-dev; Fedora: dnf install clang-devel), or set LIBCLANG_PATH to the folder \
         that it is in (without root: pip install libclang)",
    )
}

/// Path of the compiler, links not resolved: compiler wrappers act by the name under which they are called.
fn compiler(mpicc: &OsStr) -> Result<PathBuf> {
    let path = search::program(mpicc).context(
        "the C compiler of the MPI library is missing: give its path with --mpicc; it comes with the \
         library's development files (Debian: libopenmpi-dev, libmpich-dev)",
    )?;
    Ok(std::path::absolute(path)?)
}

/// I_MPI_ROOT, in which Intel MPI's compilers find their library, unless the user has set it (with Intel's
/// `setvars.sh`). Other compilers ignore it.
fn prefix(mpicc: &Path) -> Option<(&'static str, PathBuf)> {
    const NAME: &str = "I_MPI_ROOT";
    let prefix = folder(mpicc).ok()?.parent()?.to_owned();
    std::env::var_os(NAME).is_none().then_some((NAME, prefix))
}

/// Macros of the library's mpi.h.
fn header(mpicc: &Path) -> Result<String> {
    let mut command = Command::new(mpicc);
    command.args(["-dM", "-E", "-include", "mpi.h", "-x", "c", "/dev/null"]);
    let output = command
        .envs(prefix(mpicc))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", mpicc.display()))?;
    ensure!(
        output.status.success(),
        "{} does not compile a program that includes mpi.h; install the library's development files \
         and a C compiler. It says:\n{}",
        mpicc.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Name and version of the library, from the macros of its header.
fn name_of(macros: &str) -> Result<String> {
    let value = |name: &str| {
        let mut lines = macros
            .lines()
            .filter_map(|line| line.strip_prefix("#define "));
        let (_, value) = lines.find_map(|line| line.split_once(' ').filter(|(n, _)| *n == name))?;
        Some(value.trim().trim_matches('"').to_owned())
    };
    let version = |names: &[&str]| {
        let numbers: Option<Vec<String>> = names.iter().map(|name| value(name)).collect();
        numbers.map(|numbers| numbers.join("."))
    };
    // MPICH derivatives define MPICH's version as well.
    let known = [
        (
            "openmpi",
            version(&[
                "OMPI_MAJOR_VERSION",
                "OMPI_MINOR_VERSION",
                "OMPI_RELEASE_VERSION",
            ]),
        ),
        ("impi", value("I_MPI_VERSION")),
        (
            "mvapich",
            value("MVAPICH_VERSION").or(value("MVAPICH2_VERSION")),
        ),
        ("mpich", value("MPICH_VERSION")),
    ];
    let found = known
        .into_iter()
        .find_map(|(name, version)| Some((name, version?)));
    if let Some((name, version)) = found {
        return Ok(format!("{name}-{version}"));
    }
    if value("MPI_ABI_VERSION").is_some() {
        bail!(
            "this compiler is for the standard ABI: name the same library's ordinary one (mpicc \
             instead of mpicc_abi)"
        );
    }
    bail!("unsupported MPI library: Open MPI, or an MPICH derivative (MVAPICH, Intel MPI, Cray MPICH), is \
         required")
}

/// Output of the lower half's `about`, which also shows that it starts here.
fn ask(lower: &Path) -> Result<About> {
    let output = Command::new(lower)
        .arg("about")
        .output()
        .with_context(|| format!("{} cannot be started", lower.display()))?;
    ensure!(
        output.status.success(),
        "the lower half was built, but cannot be started ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    serde_json::from_slice(&output.stdout)
        .context("cannot read the output of the lower half's `about`")
}

/// The folder of a library's compiler, links resolved. The library's launchers are in the same folder.
fn folder(mpicc: &Path) -> Result<PathBuf> {
    let path = mpicc.canonicalize()?;
    Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Installs a file unless its content is installed already. A rename puts it in place, so that a running job keeps its
/// old file.
fn install(content: &[u8], mode: u32, place: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if fs::read(place).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let cannot = || format!("cannot write {}", place.display());
    let new = place.with_extension(format!("new-{}", std::process::id()));
    fs::write(&new, content).with_context(cannot)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).with_context(cannot)?;
    fs::rename(&new, place).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Detail;

    #[test]
    fn names_come_from_the_header() {
        let ompi = "#define OMPI_MINOR_VERSION 0\n#define OMPI_MAJOR_VERSION 5\n#define OMPI_RELEASE_VERSION 11\n";
        assert_eq!(name_of(ompi).unwrap(), "openmpi-5.0.11");
        let mpich = "#define X 1\n#define MPICH_VERSION \"5.0.2\"\n";
        assert_eq!(name_of(mpich).unwrap(), "mpich-5.0.2");
        let intel = format!("{mpich}#define I_MPI_VERSION \"2021.18.1\"\n");
        assert_eq!(name_of(&intel).unwrap(), "impi-2021.18.1");
        let standard = name_of("#define MPI_ABI_VERSION 1\n").unwrap_err();
        assert!(standard.to_string().contains("mpicc_abi"));
        assert!(name_of("#define MPI_VERSION 3\n").is_err());
    }

    #[test]
    fn all_missing_prerequisites_are_named() {
        let options = BuildLower {
            mpicc: "/nowhere/mpicc".into(),
            name: None,
            source: Some("/nowhere/else".into()),
            detail: Detail::default(),
        };
        let layout = Layout::find().unwrap();
        let error = find(&options, &layout).err().unwrap().to_string();
        assert!(error.contains("/nowhere/mpicc"), "{error}");
        assert!(error.contains("--source"), "{error}");
    }

    #[test]
    fn a_build_begins_with_that_for_another_library() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("lower-new");
        begin_with_another(&target);
        assert!(!target.exists());
        let other = root.path().join("lower-old");
        fs::create_dir_all(other.join("release/deps")).unwrap();
        fs::write(other.join("release/deps/a"), "a").unwrap();
        begin_with_another(&target);
        assert!(!target.exists(), "it is not said for which library that is");
        fs::write(other.join(STAMP), "old").unwrap();
        begin_with_another(&target);
        assert_eq!(
            fs::read_to_string(target.join("release/deps/a")).unwrap(),
            "a"
        );
        assert_eq!(fs::read_to_string(target.join(STAMP)).unwrap(), "old");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_are_replaced_by_rename() {
        let dir = std::env::temp_dir().join(format!("stasis-install-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        for text in ["one", "two", "two"] {
            install(text.as_bytes(), 0o600, &dir.join("x")).unwrap();
            assert_eq!(fs::read_to_string(dir.join("x")).unwrap(), text);
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }
}
