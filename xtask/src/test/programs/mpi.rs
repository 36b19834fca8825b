//! MPI programs under real launchers: run, cut, killed, restarted, compared with an uninterrupted native run.
//!
//! A case is called `example:mode:front@lower` or `...>restart`: the program was built for `front`, started over
//! `lower` and restarted over `restart`.

use crate::build::{pypi, setup};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::{hash, Random};
use crate::harness::{paths, signal, stasis};
use crate::test::support::compare::{Compare, FilePart};
use crate::test::support::compile::{command_line, set_environment};
use crate::test::support::directives::{collect, Cut, Example, Kill, Mode};
use crate::test::support::held_job::files_named;
use crate::test::{Case, Outcome, Session};
use anyhow::{bail, ensure, Context, Result};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Folders of examples for other tests, the benchmark and the demo.
const ELSEWHERE: &[&str] = &[
    "bench",
    "bugs",
    "cp2k",
    "form",
    "freefem",
    "lammps",
    "loader",
    "mpqc",
    "nwchem",
    "papers",
    "qe",
    "schedule",
    "schedulers",
    "slurm",
    "tools",
    "torture",
];

/// Time for a checkpoint outside of MPI, after which the program continues without it.
const OUTSIDE_PATIENCE: Duration = Duration::from_secs(3);

/// The cases of all examples: a spread of the combinations, or all of them.
pub fn cases(full: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for example in collect(&paths::examples(), &folders()?)? {
        let mut fronts = example.fronts.iter();
        let package = example.package.as_deref();
        let extra =
            example.sdist.is_some() || package.is_some_and(setup::only_full) || is_crowd(&example);
        if !full && (extra || fronts.any(|front| pypi::bin(*front).is_some())) {
            continue;
        }
        let example = Arc::new(example);
        for plan in plans(&example, full) {
            cases.push(case(example.clone(), plan));
        }
    }
    Ok(cases)
}

fn case(example: Arc<Example>, plan: Plan) -> Case {
    Case::new(plan.name(&example), move |session, dir| {
        if let Some(why) = &example.pending {
            return Outcome::Skipped(why.clone());
        }
        let missing = pypi::missing(&[plan.front], example.sdist.as_deref())
            .or_else(|| setup::missing(example.package.as_deref()));
        if let Some(why) = missing {
            return Outcome::Skipped(why);
        }
        run(&example, &plan, session, dir).into()
    })
}

/// The examples of collective operations with `--reduce`: all of them and all their combinations with `full`, otherwise
/// some, each in one mode. Some turn it on or off at the restart.
pub fn reduced(full: bool) -> Result<Vec<Case>> {
    const HOW: [(&str, [Option<&str>; 2]); 5] = [
        ("linear", [Some("all"); 2]),
        ("tree", [Some("tree:all"); 2]),
        ("turned-on", [None, Some("all")]),
        ("turned-off", [Some("all"), None]),
        ("some", [Some("-Allreduce"), Some("Allreduce,Barrier")]),
    ];
    let mut cases = Vec::new();
    let examples = collect(&paths::examples(), &["coll"])?.into_iter();
    let examples = examples.filter(|example| example.published.is_none());
    for (place, example) in examples.enumerate() {
        if !full && (place % 3 > 0 || pypi::bin(example.fronts[0]).is_some()) {
            continue;
        }
        for (number, (how, reduce)) in HOW.into_iter().enumerate() {
            if !full && number != place / 3 % HOW.len() {
                continue;
            }
            let mut example = example.clone();
            example.name = format!("reduced/{}.{how}", example.name.replace("coll/", ""));
            example.reduce = reduce;
            example.modes.retain(|mode| *mode != Mode::Hang);
            if reduce[0] != reduce[1] {
                example.modes.retain(|mode| !is_never_restarted(*mode));
            }
            example.full = false;
            let plans = plans(&example, full);
            let some = if full { plans.len() } else { 1 };
            let (skipped, example) = (
                if full { 0 } else { place % plans.len() },
                Arc::new(example),
            );
            let plans = plans.into_iter().cycle().skip(skipped).take(some);
            cases.extend(plans.map(|plan| case(example.clone(), plan)));
        }
    }
    Ok(cases)
}

/// Whether a job in this mode is never restarted.
fn is_never_restarted(mode: Mode) -> bool {
    matches!(mode, Mode::Plain | Mode::Continue)
}

/// Whether a job is too large for a machine with few processors.
fn is_crowd(example: &Example) -> bool {
    example.ranks >= 16
}

/// Whether this machine can run the examples of a folder.
fn can_run(folder: &str) -> bool {
    folder != "gpu" || Path::new("/dev/nvidiactl").exists()
}

/// The other folders of examples, by name.
pub fn folders() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(paths::examples())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let runs = !ELSEWHERE.contains(&name.as_str()) && can_run(&name);
        if entry.file_type()?.is_dir() && runs {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// One combination.
#[derive(Clone, Copy)]
pub struct Plan {
    pub mode: Mode,
    /// ABI of the program.
    pub front: Mpi,
    /// Library of the start.
    pub lower: Mpi,
    /// Library of a restart under another library.
    pub other: Mpi,
}

impl Plan {
    /// Libraries of the restarts, in turn.
    fn restarts(&self) -> Vec<Mpi> {
        let back_and_forth = [self.other, self.lower].into_iter().cycle();
        match self.mode {
            Mode::Plain | Mode::Continue | Mode::Recover | Mode::RecoverMemory | Mode::Hang => {
                vec![]
            }
            Mode::Restart => vec![self.lower],
            Mode::Migrate | Mode::Stop => vec![self.other],
            Mode::Cycle => back_and_forth.take(2).collect(),
            Mode::Ten => back_and_forth.take(10).collect(),
        }
    }

    /// Name of its case.
    pub fn name(&self, example: &Example) -> String {
        let to = self
            .restarts()
            .first()
            .map_or(String::new(), |mpi| format!(">{mpi}"));
        format!(
            "{}:{}:{}@{}{to}",
            example.name,
            self.mode.name(),
            self.front,
            self.lower
        )
    }
}

/// Output without Hydra's reports of killed ranks, which it prints among the program's. A report of a launcher that is
/// killed itself has no end.
pub fn without_reports(text: &str) -> String {
    const FIRST: &str = "\n====================";
    const LAST: &str = "Please see the FAQ page for debugging suggestions";
    const OTHERS: [&str; 3] = [
        "=",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
        "This typically refers to a problem with your application",
    ];
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, report)) = rest.split_once(FIRST) {
        kept += before;
        rest = report.split_once('\n').map_or("", |(_, behind)| behind);
        for line in rest.split_inclusive('\n') {
            let is_last = line.starts_with(LAST);
            if !is_last && !OTHERS.iter().any(|other| line.starts_with(other)) {
                break;
            }
            rest = &rest[line.len()..];
            if is_last {
                break;
            }
        }
    }
    kept + rest
}

/// Whether the example runs in the modes `recover` and `recover-memory`: all that it prints before its cut is printed
/// once.
pub fn is_recovered(example: &Example) -> bool {
    example.modes.contains(&Mode::Restart)
        && example.cut == Cut::Hold
        && example.command.is_none()
        && example.kill == Kill::Now
}

/// Whether a mode is among the cases without `full`. Some modes show little that another mode does not show. They are
/// left to some of the examples that have both, so that the default run ends in time. Examples with `Matrix: full` go
/// on after a checkpoint, too.
fn is_chosen(example: &Example, mode: Mode) -> bool {
    let (shown_by, of, this) = match mode {
        // A run that goes on after a checkpoint shows what one without a checkpoint shows.
        Mode::Plain => (Mode::Continue, 8, 0),
        // A restart under the other library shows what one under the same library shows, and most of what a run that
        // goes on shows.
        Mode::Restart => (Mode::Migrate, 8, 1),
        Mode::Continue if !example.full => (Mode::Migrate, 4, 2),
        // One more restart, and eight more.
        Mode::Cycle => (Mode::Migrate, 2, 1),
        Mode::Ten => (Mode::Cycle, 2, 0),
        _ => return true,
    };
    hash(&example.name) / 16 % of == this || !example.modes.contains(&shown_by)
}

/// All of an example's combinations with `full`; otherwise one per mode, or two with `Matrix: full` of a mode with one
/// restart at most, in a rotation by which the examples together cover all.
fn plans(example: &Example, full: bool) -> Vec<Plan> {
    let pairs: Vec<(Mpi, Mpi)> = example
        .fronts
        .iter()
        .flat_map(|front| [(*front, *front), (*front, front.other())])
        .filter(|(front, lower)| !example.own || front == lower)
        .collect();
    let offset = (hash(&example.name) % 4) as usize;
    let mut plans = Vec::new();
    let chosen = |of_16: u64| full || hash(&example.name) % 16 == of_16;
    let recover = [(Mode::Recover, 0), (Mode::RecoverMemory, 1)].into_iter();
    let recover = recover.filter(|(_, of_16)| is_recovered(example) && chosen(*of_16));
    let recover = recover.map(|(mode, _)| mode);
    for (m, mode) in example.modes.iter().copied().chain(recover).enumerate() {
        if !full && !is_chosen(example, mode) {
            continue;
        }
        let count = match (full, example.full) {
            (true, _) => pairs.len(),
            (false, true) if !matches!(mode, Mode::Cycle | Mode::Ten) => 2,
            (false, _) => 1,
        };
        for i in 0..count {
            // Neighbours in the list share a front; stepping by two changes it.
            let (front, lower) = pairs[if full {
                i
            } else {
                (offset + m + 2 * i + i / 2) % pairs.len()
            }];
            plans.push(Plan {
                mode,
                front,
                lower,
                other: lower.other(),
            });
        }
    }
    plans
}

/// An example built for `front`, run over `lower`, cut, killed, and restarted under `other`.
pub fn migrate(
    example: &Example,
    front: Mpi,
    lower: Mpi,
    other: Mpi,
    session: &Session,
    dir: &Path,
) -> Result<()> {
    let plan = Plan {
        mode: Mode::Migrate,
        front,
        lower,
        other,
    };
    run(example, &plan, session, dir)
}

/// An example run according to a plan.
pub fn run(example: &Example, plan: &Plan, session: &Session, dir: &Path) -> Result<()> {
    let native = match (plan.mode, &example.compare) {
        (Mode::Hang, _) | (_, Compare::Nothing) => None,
        _ => Some(reference(
            example,
            compared_with(example, plan.front, session),
        )?),
    };
    let mut case = RunningCase {
        example,
        plan,
        dir,
        ckpt: dir.join("ck"),
        random: Random::new(session.seed, &plan.name(example)),
        deadline: Instant::now() + example.timeout,
        starts: Vec::new(),
        job_before: String::new(),
    };
    let result = case
        .drive()
        .and_then(|()| match native {
            Some(native) => example.compare.runs(&native, dir, &case.starts),
            None => Ok(()),
        })
        .with_context(|| format!("in {} (seed {})", dir.display(), session.seed));
    if result.is_ok() {
        // The images of a thousand passed cases would fill the disk.
        let _ = fs::remove_dir_all(&case.ckpt);
    }
    result
}

/// The library whose native run a run is compared with: its own with `--full`, otherwise Open MPI, which all programs
/// agree with, but for what a profiler sees. MPICH takes ten times as long natively where jobs share processors.
fn compared_with(example: &Example, front: Mpi, session: &Session) -> Mpi {
    let either = example.fronts.contains(&Mpi::OpenMpi) && !example.own;
    match either && example.preload.is_none() && !session.full {
        true => Mpi::OpenMpi,
        false => front,
    }
}

/// The folder of the uninterrupted native run of this example, made once per run of the harness.
pub fn reference(example: &Example, front: Mpi) -> Result<PathBuf> {
    type Cell = Arc<OnceLock<std::result::Result<PathBuf, String>>>;
    static DONE: OnceLock<Mutex<HashMap<(String, Mpi), Cell>>> = OnceLock::new();
    let cell = DONE
        .get_or_init(Mutex::default)
        .lock()
        .expect("nothing panics under it")
        .entry((example.name.clone(), front))
        .or_default()
        .clone();
    cell.get_or_init(|| native_run(example, front).map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

fn native_run(example: &Example, front: Mpi) -> Result<PathBuf> {
    let dir = crate::test::folder(&format!("{}:native:{front}", example.name))?;
    let work = dir.join("work");
    fs::create_dir(&work)?;
    let mut command = front.mpirun(example.ranks, &dir);
    set_environment(&mut command, example, front)?;
    command
        .args(command_line(example, Some(front))?)
        .current_dir(&work);
    job::run(command, &dir, "run", example.timeout)?
        .expect_success(&format!("the native run of {} under {front}", example.name))?;
    Ok(dir)
}

/// A case while it runs.
struct RunningCase<'a> {
    example: &'a Example,
    plan: &'a Plan,
    dir: &'a Path,
    ckpt: PathBuf,
    random: Random,
    deadline: Instant,
    /// Standard output of each start, in order.
    starts: Vec<PathBuf>,
    /// Content of the job file that the previous run has left.
    job_before: String,
}

impl RunningCase<'_> {
    fn drive(&mut self) -> Result<()> {
        fs::create_dir(self.dir.join("work"))?;
        let plan = *self.plan;
        let mode = plan.mode;
        if mode == Mode::Plain {
            self.open_gate()?;
        }
        let mut launch = stasis::launch(plan.lower, self.example.ranks, &self.ckpt, self.dir);
        launch
            .args(command_line(self.example, Some(plan.front))?)
            .current_dir(self.dir.join("work"));
        let recovers = matches!(mode, Mode::Recover | Mode::RecoverMemory);
        if recovers {
            launch = stasis::run(&[], &launch);
        }
        if mode == Mode::RecoverMemory {
            launch.env("STASIS_MEMORY_INTERVAL", "1");
        }
        let mut job = self.start(launch, "launch")?;
        if mode == Mode::Plain {
            return self.finish(job);
        }
        let result = self.reach_cut(&mut job).and_then(|()| match mode {
            Mode::Hang => self.hang(&mut job),
            Mode::RecoverMemory => {
                stasis::until_held(&mut job, &self.ckpt, self.dir, self.deadline)
            }
            _ => self.cut(&mut job),
        });
        job.explain(result, self.dir)?;
        if mode == Mode::Hang {
            return job.kill();
        }
        if recovers {
            let result = self.kill_ranks(&mut job);
            job.explain(result, self.dir)?;
        }
        if recovers || mode == Mode::Continue {
            self.open_gate()?;
            self.finish(job)?;
            if let (true, Some(stdout)) = (recovers, self.starts.last()) {
                fs::write(stdout, without_reports(&job::read_text(stdout)))?;
            }
            return self.verify();
        }
        self.end(job)?;
        let restarts = plan.restarts();
        let (last, others) = restarts.split_last().context("a mode without a restart")?;
        for (number, lower) in others.iter().enumerate() {
            job = self.restart(*lower, &format!("restart-{}", number + 1))?;
            let result = self
                .new_coordinator(&mut job)
                .and_then(|()| self.checkpoint(&mut job));
            job.explain(result, self.dir)?;
            self.end(job)?;
        }
        self.open_gate()?;
        let job = self.restart(*last, "restart")?;
        self.finish(job)
    }

    fn start(&mut self, mut command: Command, name: &str) -> Result<Job> {
        set_environment(&mut command, self.example, self.plan.front)?;
        command
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.gate());
        if let Some(published) = self.example.published_in(self.plan.mode) {
            command.env("STASIS_PUBLISHED", published);
        }
        if let Some(reduce) = self.example.reduce[usize::from(name != "launch")] {
            command.env("STASIS_REDUCE", reduce);
        }
        if let Some(fan_out) = self.example.fan_out {
            command.env("STASIS_FAN_OUT", fan_out.to_string());
        }
        let job = Job::start(command, self.dir, name)?;
        self.starts.push(job.stdout.clone());
        Ok(job)
    }

    fn restart(&mut self, lower: Mpi, name: &str) -> Result<Job> {
        // Started in another directory, because the job's working directory is in the image.
        let elsewhere = self.dir.join(name);
        fs::create_dir(&elsewhere)?;
        let mut command = stasis::restart(lower, self.example.ranks, &self.ckpt, self.dir);
        command.current_dir(elsewhere);
        self.start(command, name)
    }

    fn gate(&self) -> PathBuf {
        self.dir.join("go")
    }

    fn open_gate(&self) -> Result<()> {
        fs::write(self.gate(), "")?;
        Ok(())
    }

    fn ready_ranks(&self) -> usize {
        files_named(self.dir, "ready.")
    }

    /// Wait until the program stops or runs at the place of its cut.
    fn reach_cut(&mut self, job: &mut Job) -> Result<()> {
        let ranks = self.example.ranks;
        if self.example.command.is_some() {
            // A third-party program announces nothing, but the job file shows that the job accepts connections.
            stasis::until_reached(job, &self.ckpt, "", self.deadline)?;
        } else {
            job.until("all ranks reached the cut", self.deadline, || {
                self.ready_ranks() >= ranks
            })?;
        }
        let wait = match &self.example.cut {
            Cut::Loop => self.random.seconds(0.0, 0.4),
            Cut::Timed(from, to) => self.random.seconds(*from, *to),
            Cut::After(from, to, part) => {
                let lines = from + self.random.below((to - from + 1) as u64) as usize;
                return self.written(job, part, |_| lines);
            }
            _ => Duration::ZERO,
        };
        std::thread::sleep(wait);
        Ok(())
    }

    /// Wait until a part has a number of lines, which may depend on the present number.
    fn written(
        &self,
        job: &mut Job,
        part: &FilePart,
        wanted: impl FnOnce(usize) -> usize,
    ) -> Result<()> {
        let file = match part.name() {
            "stdout" => job.stdout.clone(),
            name => self.dir.join("work").join(name),
        };
        let lines = || part.lines(&job::read_text(&file)).len();
        let wanted = wanted(lines());
        let what = format!("it had written {wanted} lines of {}", part.name());
        job.until(&what, self.deadline, || lines() >= wanted)
    }

    /// Request the checkpoint in the way of the example's cut.
    fn cut(&mut self, job: &mut Job) -> Result<()> {
        match self.example.cut {
            Cut::Pending | Cut::Outside => {}
            Cut::Refused(ref word) => return self.refused(job, word),
            Cut::None => bail!("the example says 'Cut: none' but has modes with a checkpoint"),
            _ => return self.checkpoint(job),
        }
        let mut request = Job::start(stasis::checkpoint(&self.ckpt), self.dir, "checkpoint")?;
        if self.example.cut == Cut::Pending {
            self.heard_by_all(&mut request)?;
        } else {
            request.wait((Instant::now() + OUTSIDE_PATIENCE).min(self.deadline))?;
        }
        self.open_gate()?;
        let status = self.answered(&mut request, job)?;
        if self.example.cut == Cut::Outside && !status.success() {
            let reason = job::read_text(&request.stderr);
            ensure!(
                reason.trim().len() > 20,
                "the refusal says too little: '{}'",
                reason.trim()
            );
            return Ok(());
        }
        self.committed(status, &request)
    }

    /// Wait until all ranks have received the `request`, or it is over.
    fn heard_by_all(&self, request: &mut Job) -> Result<()> {
        const NOT_YET: [&str; 4] = [
            "idle",
            "waiting for MPI_Init",
            "making the directory",
            "asking the ranks",
        ];
        while request.poll()?.is_none() {
            let limit = self.deadline.saturating_duration_since(Instant::now());
            let stage = stasis::stage(&self.ckpt, self.dir, limit)?;
            if !NOT_YET.contains(&stage.as_str()) {
                break;
            }
        }
        Ok(())
    }

    /// The checkpoint must not complete. The coordinator itself reports that, after all possible progress of the job.
    fn hang(&mut self, job: &mut Job) -> Result<()> {
        const SAYS: [&str; 2] = ["no rank can reach", "must still stop and drain"];
        let mut request = Job::start(stasis::checkpoint(&self.ckpt), self.dir, "checkpoint")?;
        self.heard_by_all(&mut request)?;
        self.open_gate()?;
        let stderr = request.stderr.clone();
        request.until("the coordinator saw no way on", self.deadline, || {
            let said = job::read_text(&stderr);
            SAYS.iter().any(|words| said.contains(words))
        })?;
        ensure!(
            job.poll()?.is_none() && request.poll()?.is_none(),
            "it did not hang"
        );
        Ok(())
    }

    /// The checkpoint must be refused, with the obstacle in the message.
    fn refused(&self, job: &mut Job, word: &str) -> Result<()> {
        let mut request = Job::start(stasis::checkpoint(&self.ckpt), self.dir, "checkpoint")?;
        let status = self.answered(&mut request, job)?;
        let reason = job::read_text(&request.stderr);
        ensure!(!status.success(), "a checkpoint was taken");
        ensure!(
            reason.contains(word),
            "the refusal does not name the {word}: '{}'",
            reason.trim()
        );
        Ok(())
    }

    fn checkpoint(&mut self, job: &mut Job) -> Result<()> {
        let mut command = stasis::checkpoint(&self.ckpt);
        if self.plan.mode == Mode::Stop {
            command.arg("--stop");
        }
        let mut request = Job::start(command, self.dir, "checkpoint")?;
        let status = self.answered(&mut request, job)?;
        self.committed(status, &request)
    }

    fn answered(&self, request: &mut Job, job: &mut Job) -> Result<ExitStatus> {
        loop {
            let soon = Instant::now() + Duration::from_millis(50);
            if let Some(status) = request.wait(soon.min(self.deadline))? {
                return Ok(status);
            }
            // A job that has ended does not answer.
            let ended = job.poll()?;
            if let (Some(ended), true) = (ended, Instant::now() > self.deadline) {
                bail!("the job ended ({ended}) and the checkpoint command still waits");
            }
            if Instant::now() > self.deadline {
                bail!("timeout while waiting for the checkpoint");
            }
        }
    }

    fn committed(&self, status: ExitStatus, request: &Job) -> Result<()> {
        ensure!(
            status.success(),
            "stasis checkpoint: {status}\n{}",
            job::tail(&job::read_text(&request.stderr), 10)
        );
        Ok(())
    }

    /// Kills random ranks at random moments, also while the job is being restarted.
    fn kill_ranks(&mut self, job: &mut Job) -> Result<()> {
        const KILLS: usize = 2;
        for _ in 0..KILLS {
            std::thread::sleep(self.random.seconds(0.0, 0.4));
            let mut ranks = Vec::new();
            job.until_seen("a rank was there to kill", self.deadline, |job| {
                ranks = job.ranks();
                !ranks.is_empty()
            })?;
            signal::kill_now(ranks[self.random.below(ranks.len() as u64) as usize]);
        }
        Ok(())
    }

    /// After a restart: wait until the new coordinator has left its address, then a little more.
    fn new_coordinator(&mut self, job: &mut Job) -> Result<()> {
        stasis::until_reached(job, &self.ckpt, &self.job_before, self.deadline)?;
        std::thread::sleep(self.random.seconds(0.0, 0.4));
        Ok(())
    }

    /// Kill the whole job, or wait for its end after `--stop` or if it comes first.
    fn end(&mut self, mut job: Job) -> Result<()> {
        if self.plan.mode == Mode::Stop {
            let ended = job.wait(self.deadline)?;
            let result = ended.map(|_| ()).context("the job did not stop");
            job.explain(result, self.dir)?;
            let said = job::read_text(&job.stderr);
            ensure!(
                !said.contains("leaked"),
                "the MPI library complains of what the stopped job has left to it: {said}"
            );
        } else if self.example.kill == Kill::Ended {
            job.succeed(self.deadline, self.dir)?;
        } else {
            if let (Cut::After(_, _, part), Kill::Later) = (&self.example.cut, self.example.kill) {
                let later = self.written(&mut job, part, |lines| lines + 1);
                job.explain(later, self.dir)?;
            }
            job.kill()?;
        }
        self.job_before = stasis::job_file(&self.ckpt);
        Ok(())
    }

    fn finish(&self, mut job: Job) -> Result<()> {
        job.succeed(self.deadline, self.dir)?;
        ensure!(
            stasis::job_file(&self.ckpt).is_empty(),
            "the job has ended and its job file is still there"
        );
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        if matches!(self.example.cut, Cut::Outside | Cut::Refused(_)) {
            return Ok(());
        }
        let limit = self.deadline.saturating_duration_since(Instant::now());
        stasis::verify(&self.ckpt, self.dir, limit)?.expect_success("stasis verify")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::without_reports;

    #[test]
    fn reports_of_killed_ranks_are_left_out() {
        let bar = "=".repeat(83);
        let begun = format!("\n{bar}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n");
        let whole = format!(
            "{begun}=   EXIT CODE: 9\n{bar}\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n\
             This typically refers to a problem with your application.\n\
             Please see the FAQ page for debugging suggestions\n"
        );
        for (printed, left) in [
            (format!("OK 1\n{whole}OK 2\n"), "OK 1\nOK 2\n"),
            (format!("OK 1\n{begun}"), "OK 1\n"),
            (
                format!("OK 1\n{begun}OK 2\n{whole}OK 3\n"),
                "OK 1\nOK 2\nOK 3\n",
            ),
            (format!("OK 1\n{begun}{}", &bar[..31]), "OK 1\n"),
            ("OK 1\n".to_owned(), "OK 1\n"),
        ] {
            assert_eq!(without_reports(&printed), left);
        }
    }
}
