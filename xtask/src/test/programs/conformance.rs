//! `cargo xtask conformance` with a small suite: a program that succeeds in all ways, one that fails under Stasis, and
//! one without a verdict.

use crate::conformance::{examine, Cut, Options, Verdict};
use crate::harness::mpi::Mpi;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::example;
use crate::test::Case;
use anyhow::{bail, ensure, Result};
use std::fs;
use std::path::Path;

const LIST: &str = "\
reports 1 arg=alone
reports 2 arg=fails
reports 2 arg=fails resultTest=TestStatus
reports 2 resultTest=TestElsewhere
reports 2 mem=1000
absent 2
inner
";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |mpi: Mpi| {
        let name = format!("conformance/suite:{mpi}>{}", mpi.other());
        Case::new(name, move |_, dir| suite(mpi, dir).into())
    };
    Mpi::ALL.into_iter().map(case).collect()
}

fn suite(mpi: Mpi, dir: &Path) -> Result<()> {
    let suite = dir.join("suite");
    let program = command_line(&example("tools", "tools/reports")?, Some(mpi))?;
    fs::create_dir_all(suite.join("inner"))?;
    for folder in ["", "inner"] {
        fs::copy(&program[0], suite.join(folder).join("reports"))?;
    }
    fs::write(suite.join("testlist"), LIST)?;
    fs::write(suite.join("inner/testlist"), "reports 3\n")?;
    let options = Options {
        programs: suite,
        mpi,
        under: Some(mpi.other()),
        launch_flags: vec!["--reduce".into(), "all".into()],
        restart_flags: vec!["--reduce".into(), "tree:all".into()],
        cuts: vec![1, 20, 10_000],
        only: vec![],
        jobs: 1,
        seconds: 60,
        memory: 2.0,
        no_setup: true,
    };
    let found = examine(&options, &dir.join("runs"), |_, _| {})?;
    let found: Vec<_> = found
        .iter()
        .map(|(entry, verdict)| (entry.name.as_str(), verdict))
        .collect();
    let [alone, fails, wanted, elsewhere, large, absent, agrees] = &found[..] else {
        bail!("found {found:#?}");
    };
    let right = matches!(
        alone,
        ("reports", Verdict::Judged { stasis: Err(why), .. }) if why.contains("not the library")
    ) && matches!(fails, ("reports.2", Verdict::FailsNatively(_)))
        && matches!(
            wanted,
            ("reports.3", Verdict::Judged { stasis: Ok(()), .. })
        )
        && [elsewhere, large, absent]
            .iter()
            .all(|(_, verdict)| matches!(verdict, Verdict::Skipped(_)));
    ensure!(right, "found {found:#?}");
    let (
        "inner/reports",
        Verdict::Judged {
            stasis: Ok(()),
            cuts,
        },
    ) = agrees
    else {
        bail!("found {agrees:#?}");
    };
    let expected = [
        (1, Cut::Passed),
        (20, Cut::Passed),
        (10_000, Cut::NotReached),
    ];
    ensure!(cuts[..] == expected, "the cuts are {cuts:?}");

    let wrong = || vec!["--reduce".to_owned(), "Sum".to_owned()];
    let told = "'Sum' is no collective function";
    let at_launch = Options {
        launch_flags: wrong(),
        only: vec!["inner".into()],
        cuts: vec![1],
        ..options.clone()
    };
    let at_restart = Options {
        launch_flags: vec![],
        restart_flags: wrong(),
        ..at_launch.clone()
    };
    let found = examine(&at_launch, &dir.join("launch"), |_, _| {})?;
    let refused = matches!(
        &found[..],
        [(_, Verdict::Judged { stasis: Err(why), .. })] if why.contains(told)
    );
    ensure!(refused, "with wrong flags of the launch: {found:#?}");
    let found = examine(&at_restart, &dir.join("restart"), |_, _| {})?;
    let refused = matches!(
        &found[..],
        [(_, Verdict::Judged { stasis: Ok(()), cuts })]
            if matches!(&cuts[..], [(1, Cut::Differs(why))] if why.contains(told))
    );
    ensure!(refused, "with wrong flags of the restart: {found:#?}");
    Ok(())
}
