//! `stasis launch`: checks everything that can fail before the run, chooses the lower half, and becomes it.

use std::process::Command;

use coordinator::claim;
use job_spec::{Checkpoints, LaunchSpec, Tools};

use crate::args::Launch;
use crate::check::{kernel, program};
use crate::commands::restart;
use crate::install::layout::Layout;
use crate::install::lower_registry::Preferred;
use crate::start::exec_lower::{exec_lower, prepare, prepare_local, schedule};
use crate::start::{announce, end_job, existing_checkpoints, for_cpu, kept, recording, word_order};
use crate::ui::exit::{self, Code, WithCode};

/// Refuses two options that contradict each other. `stasis run` has looked at those of the user, and adds `--resume`
/// when it starts the job again.
pub fn check_beginning(options: &Launch) -> anyhow::Result<()> {
    anyhow::ensure!(
        !(options.resume && options.anew),
        "--resume continues from a checkpoint and --anew does not: give one of them"
    );
    Ok(())
}

/// Runs the command; returns only if the program cannot be started.
pub fn run(options: &Launch) -> exit::Result<()> {
    let directory = options.directory();
    if let Some(incarnation) = options.running.checkpoints.incarnation() {
        // `stasis run` does not hear of a rank that cannot reach it.
        let in_memory = options.running.checkpoints.schedule.in_memory();
        let announced = announce::announce(&directory, incarnation, options.asleep, in_memory);
        end_job::on_error(announced, Code::CannotServe, &options.running)?;
    }
    kernel::check_trap().code(Code::CannotServe)?;
    launcher::check_size().code(Code::Usage)?;
    word_order::check(&options.app).code(Code::Usage)?;
    if options.running.checkpoints.incarnation().is_none() {
        check_beginning(options).code(Code::Usage)?;
    }
    kept::check_start(&directory, &options.running)?;
    if options.resume {
        restart::resume(options, &directory)?;
    }
    if options.asleep {
        let why = anyhow::anyhow!(
            "a standby world needs a checkpoint, and {} has none",
            directory.display()
        );
        return Err(why).code(Code::Image);
    }
    let layout = Layout::find().code(Code::CannotServe)?;
    let [app, arguments @ ..] = options.app.as_slice() else {
        return Err(anyhow::anyhow!("no program was named")).code(Code::Usage);
    };
    let (path, findings) = program::inspect(app, &layout).code(Code::CannotServe)?;
    findings.accept(&path).code(Code::CannotServe)?;
    let preferred = Preferred {
        library: None,
        abi: findings.front,
    };
    let lower = layout
        .choose(options.running.mpi.as_deref(), preferred)
        .code(Code::CannotServe)?;
    if launcher::is_first() {
        let front = findings.front.map_or("no MPI library", |front| front.key());
        let detail = &options.running.detail;
        detail.tell(format_args!(
            "the program is {}, built for {front}",
            path.display()
        ));
        detail.tell(format_args!("the job runs over {lower}"));
        detail.tell(format_args!("checkpoints go to {}", directory.display()));
    }
    let mpi_library = lower.mpi_library;
    let lower = lower.path;
    let shown = options.for_cpu.as_deref().map(for_cpu::read);
    let shown = shown.transpose().code(Code::Usage)?;
    // The lower half uses the key. It is read here so that an unreadable key fails before the start.
    let key = options.running.checkpoints.key.read().code(Code::Usage)?;
    let directory = prepare(&directory).code(Code::Directory)?;
    prepare_local(&options.running, &directory)?;
    recording::prepare(&options.running).code(Code::Directory)?;
    // Only the first rank checks: the others may already see the files of this job, and sets that it has archived.
    if launcher::is_first() {
        let free = claim::check_free(&directory).map_err(Into::into);
        let free =
            free.and_then(|()| existing_checkpoints::make_free(&directory, options, key.as_ref()));
        let free = free.and_then(|()| recording::make_free(&options.running, options.resume));
        end_job::on_error(free, Code::Directory, &options.running)?;
    }

    let schedule = schedule(&options.running)?;
    let checkpoints = options.running.spec(directory, schedule);
    let spec = LaunchSpec::<()> {
        checkpoints: Checkpoints {
            for_cpu: shown,
            mpi_library,
            announced: announce::inherited(),
            tools: Tools {
                profile: options.profile,
                ..checkpoints.tools
            },
            ..checkpoints
        },
        lineage: None,
    };
    let spec = job_spec::to_argument(&spec).code(Code::CannotServe)?;
    let mut command = Command::new(&lower);
    command.arg("launch").arg(spec);
    command.arg("--").arg(&path).args(arguments);
    // The program's argv[0] is the name in the command line.
    command.env("STASIS_ARGV0", app);
    exec_lower(command, &lower).code(Code::CannotServe)
}
