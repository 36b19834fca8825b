//! Command lines in the wrong order: an unknown option of `stasis launch` in the place of the program, and the
//! launcher of ranks behind `stasis`, where other checkpointers expect it.

use std::ffi::OsString;

use anyhow::{bail, Result};

use linked::search;

/// Checks that the program of the command line is neither.
pub fn check(app: &[OsString]) -> Result<()> {
    let program = app.first().map(|word| word.to_string_lossy());
    let program = program.unwrap_or_default();
    if program.starts_with('-') {
        bail!(
            "there is no option {program} (see `stasis launch --help`). A program of such a name is given with its \
             path, ./{program}"
        );
    }
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(line) = right_order(&given, app) {
        bail!(
            "{program} starts the ranks, and each of them must be started by stasis, not {program} itself: give the \
             command in this order: {line}"
        );
    }
    Ok(())
}

/// The command line with the launcher of ranks moved before `stasis`, if it came after. `given` holds all arguments of
/// stasis and ends with `app`.
fn right_order(given: &[OsString], app: &[OsString]) -> Option<String> {
    let (launcher, arguments) = app.split_first()?;
    let path = search::program(launcher).ok()?;
    let resolved = path.canonicalize().ok();
    if ![Some(path), resolved]
        .into_iter()
        .flatten()
        .any(|path| launcher::starts_ranks(&path))
    {
        return None;
    }
    // The launcher's options are unknown here, but none of them is a program.
    let is_program = |word: &OsString| {
        !word.as_encoded_bytes().starts_with(b"-") && search::program(word).is_ok()
    };
    let at = arguments
        .iter()
        .position(is_program)
        .unwrap_or(arguments.len());
    let (own, program) = arguments.split_at(at);
    let stasis = given.strip_suffix(app)?;
    let stasis = stasis.strip_suffix(&["--".into()]).unwrap_or(stasis);
    let name = [OsString::from("stasis")];
    let parts = [std::slice::from_ref(launcher), own, &name, stasis, program];
    let mut words: Vec<String> = parts
        .into_iter()
        .flatten()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if program.is_empty() {
        words.push("PROGRAM".to_owned());
    }
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_launcher_is_moved_first() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let (mpirun, app) = (place("mpirun.xy"), place("app"));
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(Into::into).collect() };
        let right = |flags: &str, line: &str| {
            let line = words(line);
            let given = [words(flags), line.clone()].concat();
            right_order(&given, &line)
        };
        assert_eq!(
            right(
                "launch --ckpt-dir ck --",
                &format!("{mpirun} -n 2 --x y {app} {mpirun} -v")
            )
            .unwrap(),
            format!("{mpirun} -n 2 --x y stasis launch --ckpt-dir ck {app} {mpirun} -v")
        );
        assert_eq!(
            right("launch", &format!("{mpirun} -n 2")).unwrap(),
            format!("{mpirun} -n 2 stasis launch PROGRAM")
        );
        assert_eq!(right("launch", &format!("{app} {mpirun}")), None);
    }

    #[test]
    fn unknown_options_are_not_programs() {
        let said = check(&["--frob".into(), "x".into()])
            .unwrap_err()
            .to_string();
        assert!(said.contains("no option --frob"), "{said}");
        check(&["./--frob".into()]).unwrap();
    }
}
