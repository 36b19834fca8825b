//! The job scripts of `examples/schedulers` for schedulers that Debian 12 has no package of. What runs is the script
//! itself, with a real launcher and a real program, in the environment that its scheduler gives to jobs. Only the
//! scheduler's own commands are stand-ins, which note how they were called. What was submitted then runs as a job.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, signal, stasis};
use crate::test::programs::mpi::reference;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{example, reach_cut, RANKS};
use crate::test::{copy_program, Case};
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// A short allocation: the job ends with a checkpoint some seconds after its start. The next one is as long as the
/// script says.
const SHORT: [(&str, &str); 2] = [("STASIS_TIME_LIMIT", "60s"), ("STASIS_BEFORE_END", "48s")];

/// Stands for a command that submits a script: it notes its words and its environment, and keeps the script, as
/// schedulers do.
const SUBMIT: &str = r#"#!/bin/bash
printf '%s\n' "$@" >"$SUBMITTED/words"
env -0 >"$SUBMITTED/environment"
pwd >"$SUBMITTED/directory"
cp "${@: -1}" "$SUBMITTED/script"
"#;

/// Stands for the command of an object store, which keeps no access rights and no empty folders.
const STORE: &str = r#"#!/bin/bash
printf '%s\n' "$*" >>"$SUBMITTED/calls"
[ "$1 $2" = "s3 cp" ] || exit 2
shift 2
while [[ $1 == --* ]]; do shift; done
[ -d "$1" ] || exit 0
umask 0
to=$(realpath -m "$2")
cd "$1" && find . -type f | while read -r file; do
    mkdir -p "$to/$(dirname "$file")" && cp --no-preserve=all "$file" "$to/$file" || exit 1
done
"#;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let mut add = |name: &str, body: fn(&Site<'_>) -> Result<()>| {
            let name = format!("schedulers/{name}:{mpi}");
            cases.push(Case::new(name, move |_, dir| {
                Site::new(dir, mpi).and_then(|site| body(&site)).into()
            }));
        };
        add("pbs", pbs);
        add("lsf", lsf);
        add("flux", flux);
        add("htcondor", htcondor);
        add("kubernetes", kubernetes);
        add("mpijob", mpijob);
        add("nextflow", nextflow);
        add("killed-group", killed_group);
    }
    cases
}

/// Variables of a job.
type Variables = BTreeMap<String, String>;

/// Where jobs of a case run.
struct Site<'a> {
    dir: &'a Path,
    mpi: Mpi,
    /// Program that is run, and what it prints natively.
    program: String,
    native: String,
}

/// A call of the stand-in that submits a script.
struct Submitted {
    words: Vec<String>,
    environment: Variables,
    directory: String,
    script: PathBuf,
}

impl Site<'_> {
    fn new(dir: &Path, mpi: Mpi) -> Result<Site<'_>> {
        let ring = example("p2p", "p2p/ring_loop")?;
        for folder in ["bin", "submitted", "spool", "home", "work"] {
            fs::create_dir(dir.join(folder))?;
        }
        Ok(Site {
            dir,
            mpi,
            program: command_line(&ring, Some(mpi))?.join(" "),
            native: job::read_text(&reference(&ring, mpi)?.join("run.out")),
        })
    }

    /// Puts a command into the PATH of the jobs.
    fn put(&self, name: &str, content: &str) -> Result<()> {
        let file = self.dir.join("bin").join(name);
        fs::write(&file, content)?;
        Ok(fs::set_permissions(
            file,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    /// Words that start the ranks.
    fn launch(&self) -> String {
        format!("{} -n {RANKS}", self.mpi.launcher())
    }

    /// Starts a job: bash with these words, in this folder and with these variables.
    fn start(&self, words: &[&Path], dir: &Path, variables: &Variables, name: &str) -> Result<Job> {
        let mut shell = Command::new("bash");
        shell.args(words).current_dir(dir);
        self.mpi.set_environment(&mut shell);
        let bin = self.dir.join("bin");
        let installed = paths::product().join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{path}", bin.display(), installed.display());
        shell
            .env("PATH", path)
            .env("HOME", self.dir.join("home"))
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .env("SUBMITTED", self.dir.join("submitted"))
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.dir.join("go"))
            .envs(variables);
        Job::start(shell, self.dir, name)
    }

    /// The last call of that stand-in.
    fn submitted(&self) -> Result<Submitted> {
        let folder = self.dir.join("submitted");
        let read = |name: &str| {
            let content = fs::read_to_string(folder.join(name));
            content.with_context(|| format!("nothing was submitted: no {name}"))
        };
        let environment = read("environment")?;
        let variables = environment.split('\0').filter_map(|v| v.split_once('='));
        Ok(Submitted {
            words: read("words")?.lines().map(str::to_owned).collect(),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            directory: read("directory")?.trim_end().to_owned(),
            script: folder.join("script"),
        })
    }

    /// Copies a script to where the scheduler keeps those of its jobs. Returns its path there.
    fn spool(&self, script: &Path, name: &str) -> Result<PathBuf> {
        let kept = self.dir.join("spool").join(name);
        fs::copy(script, &kept).with_context(|| format!("copying {}", script.display()))?;
        Ok(kept)
    }

    /// Waits until a job has ended with this code.
    fn ends(&self, job: &mut Job, code: i32) -> Result<()> {
        let status = job.wait(Instant::now() + LIMIT)?;
        let result = match status.and_then(|status| status.code()) {
            Some(found) if found == code => Ok(()),
            _ => Err(anyhow::anyhow!("it ends with {status:?} instead of {code}")),
        };
        job.explain(result, self.dir)
    }

    /// Lets the program run to its end in the next job, which goes on from the checkpoint of the one before.
    fn finishes(&self, job: &mut Job) -> Result<()> {
        fs::write(self.dir.join("go"), "")?;
        self.ends(job, 0)?;
        let [printed, said] = [&job.stdout, &job.stderr].map(|file| job::read_text(file));
        ensure!(said.contains("continuing "), "it did not go on: {said}");
        ensure!(
            printed.matches(self.native.trim()).count() == 1,
            "it printed:\n{}",
            job::tail(&printed, 20)
        );
        Ok(())
    }
}

/// A file of the examples.
fn script(name: &str) -> PathBuf {
    paths::examples().join("schedulers").join(name)
}

/// The options in the head of a script, each without the word that marks it. A scheduler reads none after the first
/// command.
fn options(name: &str, mark: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(script(name))?;
    let is_head = |line: &&str| line.is_empty() || line.starts_with('#');
    let head = text.lines().take_while(is_head);
    let found = head.filter_map(|line| line.strip_prefix(mark));
    let found: Vec<String> = found.map(|words| words.trim().to_owned()).collect();
    ensure!(
        !found.is_empty() && text.matches(&format!("\n{mark} ")).count() == found.len(),
        "{name} has no options in its head, or others below: {found:?}"
    );
    Ok(found)
}

fn variables<const N: usize>(all: [(&str, &str); N]) -> Variables {
    let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
    all.into()
}

/// PBS runs a copy of the script, in the home folder, and passes to a job those variables that `-v` names.
fn pbs(site: &Site<'_>) -> Result<()> {
    let all = options("pbs.sh", "#PBS")?;
    ensure!(all.contains(&"-l walltime=04:00:00".into()), "{all:?}");
    site.put("qsub", SUBMIT)?;
    let (home, work) = (site.dir.join("home"), site.dir.join("work"));
    let at = work.to_string_lossy().into_owned();
    // A comma, at which `-v` with the line itself would end.
    let line = format!("{} a,b", site.program);
    let launch = site.launch();
    let mut given = variables([("LINE", &line), ("LAUNCH", &launch), ("PBS_O_WORKDIR", &at)]);
    given.extend(variables(SHORT));
    let first = site.spool(&script("pbs.sh"), "1.SC")?;
    let mut job = site.start(&[&first], &home, &given, "first")?;
    reach_cut(&mut job, site.dir)?;
    site.ends(&mut job, 0)?;
    fs::remove_file(first)?;
    let submitted = site.submitted()?;
    let [v, names, _] = &submitted.words[..] else {
        anyhow::bail!("qsub {:?}", submitted.words);
    };
    ensure!(v == "-v", "qsub {:?}", submitted.words);
    let mut given = variables([("PBS_O_WORKDIR", submitted.directory.as_str())]);
    for name in names.split(',') {
        let value = submitted.environment.get(name);
        let value = value.with_context(|| format!("the job has no {name} to pass on"))?;
        given.insert(name.to_owned(), value.clone());
    }
    for (name, value) in SHORT {
        let kept = given.remove(name);
        ensure!(kept.is_some_and(|kept| kept == value), "{name} is lost");
    }
    let second = site.spool(&submitted.script, "2.SC")?;
    let mut job = site.start(&[&second], &home, &given, "second")?;
    site.finishes(&mut job)
}

/// LSF starts a job again, in its folder and its environment, that exits with the code of `-Q`.
fn lsf(site: &Site<'_>) -> Result<()> {
    let all = options("lsf.sh", "#BSUB")?;
    let code = all.iter().find_map(|option| option.strip_prefix("-Q "));
    let code = code.context("lsf.sh has no -Q")?.parse()?;
    let work = site.dir.join("work");
    let launch = site.launch();
    let given = variables([("LINE", &site.program), ("LAUNCH", &launch)]);
    let mut short = given.clone();
    short.extend(variables(SHORT));
    let kept = site.spool(&script("lsf.sh"), "1.shell")?;
    let mut job = site.start(&[&kept], &work, &short, "first")?;
    reach_cut(&mut job, site.dir)?;
    site.ends(&mut job, code)?;
    let mut job = site.start(&[&kept], &work, &given, "second")?;
    site.finishes(&mut job)
}

/// Flux passes the environment on. A job is a Flux of its own, in which `flux batch` submits to the one above it only
/// after `--parent`.
fn flux(site: &Site<'_>) -> Result<()> {
    options("flux.sh", "#flux:")?;
    site.put("flux", SUBMIT)?;
    let work = site.dir.join("work");
    let launch = site.launch();
    let mut given = variables([("LINE", &site.program), ("LAUNCH", &launch)]);
    given.extend(variables(SHORT));
    let first = site.spool(&script("flux.sh"), "first")?;
    let mut job = site.start(&[&first], &work, &given, "first")?;
    reach_cut(&mut job, site.dir)?;
    site.ends(&mut job, 0)?;
    fs::remove_file(first)?;
    let submitted = site.submitted()?;
    ensure!(
        submitted.words[..2] == ["--parent", "batch"],
        "flux {:?}",
        submitted.words
    );
    let mut given = submitted.environment;
    for (name, value) in SHORT {
        let kept = given.remove(name);
        ensure!(kept.is_some_and(|kept| kept == value), "{name} is lost");
    }
    let second = site.spool(&submitted.script, "second")?;
    let mut job = site.start(&[&second], &work, &given, "second")?;
    site.finishes(&mut job)
}

/// HTCondor gives a job a folder with its input, sends it a signal when it needs the machine, and starts it again in
/// another folder with its checkpoint. All that is in the submit file.
fn htcondor(site: &Site<'_>) -> Result<()> {
    let text = fs::read_to_string(script("htcondor.sub"))?;
    let settings = text.lines().filter(|line| !line.starts_with('#'));
    let settings: Variables = settings
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let setting = |name: &str| {
        let value = settings.get(name);
        value.with_context(|| format!("htcondor.sub has no {name}"))
    };
    let list = |name: &str| -> Result<Vec<&str>> {
        Ok(setting(name)?.split(',').map(str::trim).collect())
    };
    let work = site.dir.join("work");
    copy_program(Path::new(&site.program), &work.join("app"))?;
    fs::write(work.join("input"), "")?;
    let (launch, place) = (site.launch(), site.dir.to_string_lossy());
    let mut given = variables([("LAUNCH", &launch), ("PLACE", &place)]);
    let numbered = setting("environment")?.trim_matches('"');
    let numbered = numbered
        .replace("$(ClusterId)", "7")
        .replace("$(ProcId)", "0");
    let (name, value) = numbered.split_once('=').context("environment")?;
    given.insert(name.to_owned(), value.to_owned());
    let run = |files: &[&str], from: &Path, name: &str| -> Result<(Job, PathBuf)> {
        let folder = site.dir.join(format!("execute-{name}"));
        fs::create_dir(&folder)?;
        copy_program(&script(setting("executable")?), &folder.join("condor_exec"))?;
        for file in files {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(from.join(file)).arg(&folder);
            job::run(copy, site.dir, "cp", LIMIT)?.expect_success("cp")?;
        }
        let mut words = vec![Path::new("condor_exec")];
        words.extend(setting("arguments")?.split(' ').map(Path::new));
        let job = site.start(&words, &folder, &given, name)?;
        Ok((job, folder))
    };
    let input = list("transfer_input_files")?;
    let (mut job, folder) = run(&input, site.dir, "first")?;
    reach_cut(&mut job, site.dir)?;
    let kill_sig: Signal = setting("kill_sig")?.parse()?;
    signal::send(job.pids()[0], kill_sig);
    site.ends(&mut job, setting("checkpoint_exit_code")?.parse()?)?;
    let kept = list("transfer_checkpoint_files")?;
    // At an eviction HTCondor takes folders along only if they are named as output.
    ensure!(
        setting("when_to_transfer_output")? == "ON_EXIT_OR_EVICT"
            && kept == list("transfer_output_files")?,
        "the checkpoint stays behind"
    );
    let spool = site.dir.join("spool");
    for file in &kept {
        fs::rename(folder.join(file), spool.join(file))?;
    }
    fs::remove_dir_all(folder)?;
    let (mut job, _) = run(&kept, &spool, "second")?;
    site.finishes(&mut job)
}

/// A manifest, as JSON.
fn manifest(name: &str, dir: &Path) -> Result<Value> {
    const READ: &str =
        "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", READ]).arg(script(name));
    let read = job::run(python, dir, "yaml", LIMIT)?.expect_success("reading the manifest")?;
    Ok(serde_json::from_str(&read.stdout)?)
}

/// A pod ends with its files. The next one has a fresh copy of the image at the same place.
fn kubernetes(site: &Site<'_>) -> Result<()> {
    let job = manifest("kubernetes.yaml", site.dir)?;
    ensure!(job["apiVersion"] == "batch/v1" && job["kind"] == "Job");
    let pod = &job["spec"]["template"]["spec"];
    ensure!(pod["restartPolicy"] == "OnFailure" && job["spec"]["backoffLimit"].is_u64());
    ensure!(pod["terminationGracePeriodSeconds"].is_u64());
    let container = &pod["containers"][0];
    evicted(site, container)
}

/// The same with the pods of the MPI operator: the ranks run in those of the workers, which share the volume of the
/// checkpoints with the launcher.
fn mpijob(site: &Site<'_>) -> Result<()> {
    let job = manifest("mpijob.yaml", site.dir)?;
    ensure!(job["apiVersion"] == "kubeflow.org/v2beta1" && job["kind"] == "MPIJob");
    let replicas = &job["spec"]["mpiReplicaSpecs"];
    ensure!(replicas["Launcher"]["restartPolicy"] == "OnFailure");
    ensure!(job["spec"]["runPolicy"]["backoffLimit"].is_u64());
    let [launcher, worker] = ["Launcher", "Worker"].map(|kind| &replicas[kind]["template"]["spec"]);
    ensure!(launcher["terminationGracePeriodSeconds"].is_u64());
    let container = &launcher["containers"][0];
    ensure!(launcher["volumes"] == worker["volumes"]);
    ensure!(container["volumeMounts"] == worker["containers"][0]["volumeMounts"]);
    evicted(site, container)
}

/// A pod with this container is evicted, and comes back without its files.
fn evicted(site: &Site<'_>, container: &Value) -> Result<()> {
    const STARTS: &str = "mpirun -n 8";
    ensure!(container["command"] == serde_json::json!(["/bin/bash", "-c"]));
    let line = container["args"][0].as_str().context("no args")?;
    ensure!(line.matches(STARTS).count() == 1, "no {STARTS}: {line}");
    let line = line.replace(STARTS, &site.launch());
    site.put("aws", STORE)?;
    let folder = site.dir.join("pod");
    let mut given = Variables::new();
    for variable in container["env"].as_array().context("no env")? {
        let name = variable["name"].as_str().context("no name")?;
        let place = match name {
            "STORE" => site.dir.join("store"),
            _ => folder.join("volume"),
        };
        given.insert(name.to_owned(), place.to_string_lossy().into_owned());
    }
    let run = |name: &str| -> Result<Job> {
        fs::create_dir(&folder)?;
        copy_program(Path::new(&site.program), &folder.join("app"))?;
        let words = ["-c", &line].map(Path::new);
        site.start(&words, &folder, &given, name)
    };
    let mut job = run("first")?;
    reach_cut(&mut job, site.dir)?;
    signal::send(job.pids()[0], Signal::SIGTERM);
    site.ends(&mut job, 7)?;
    fs::remove_dir_all(&folder)?;
    let mut job = run("second")?;
    site.finishes(&mut job)
}

/// Nextflow runs the process's script, and again in another folder when a rank was killed.
fn nextflow(site: &Site<'_>) -> Result<()> {
    let settings = fs::read_to_string(script("nextflow.config"))?;
    for setting in [
        "withName: simulate",
        "errorStrategy = 'retry'",
        "maxRetries =",
    ] {
        ensure!(settings.contains(setting), "nextflow.config: no {setting}");
    }
    let process = fs::read_to_string(script("nextflow.nf"))?;
    let [_, line, _] = process.split("\"\"\"").collect::<Vec<_>>()[..] else {
        anyhow::bail!("nextflow.nf has no script");
    };
    let mut line = line.to_owned();
    let folder = site.dir.join("home");
    for (name, value) in [
        ("folder", folder.to_string_lossy().as_ref()),
        ("program", &site.program),
        ("launch", &site.launch()),
        ("interval", "600"),
    ] {
        let parameter = format!("${{params.{name}}}");
        ensure!(line.contains(&parameter), "the script has no {parameter}");
        line = line.replace(&parameter, value);
    }
    let attempt = |name: &str| -> Result<Job> {
        let folder = site.dir.join("work").join(name);
        fs::create_dir(&folder)?;
        let words = ["-uec", &line].map(Path::new);
        site.start(&words, &folder, &Variables::new(), name)
    };
    let mut job = attempt("first")?;
    reach_cut(&mut job, site.dir)?;
    stasis::take_checkpoint(&folder.join("ckpt"), site.dir, "checkpoint", LIMIT)?;
    for rank in job.ranks() {
        signal::kill_now(rank);
    }
    let failed = job.wait(Instant::now() + LIMIT)?;
    ensure!(failed.is_some_and(|status| !status.success()), "{failed:?}");
    let finished = |name: &str| site.dir.join("work").join(name).join("finished").exists();
    ensure!(!finished("first"), "a killed job has its output");
    let mut job = attempt("second")?;
    site.finishes(&mut job)?;
    ensure!(finished("second"), "the process has no output");
    Ok(())
}

/// A scheduler that does without control groups kills the process group of the job script. The launcher and the ranks
/// are not in it, and nothing of the job is left all the same.
fn killed_group(site: &Site<'_>) -> Result<()> {
    let ckpt = site.dir.join("ck");
    let line = format!(
        "stasis run -- {} stasis launch --ckpt-dir {} {}\nexit",
        site.launch(),
        ckpt.display(),
        site.program
    );
    let words = ["-c", &line].map(Path::new);
    let mut job = site.start(&words, site.dir, &Variables::new(), "run")?;
    reach_cut(&mut job, site.dir)?;
    let (script, all) = (job.pids()[0], job.pids());
    let (killed, others): (Vec<i32>, Vec<i32>) =
        all.iter().partition(|pid| group_of(**pid) == Some(script));
    ensure!(
        job.ranks().iter().all(|rank| others.contains(rank)),
        "the ranks are in the script's process group"
    );
    killed.into_iter().for_each(signal::kill_now);
    job::until_ended(&others, Instant::now() + LIMIT)
}

/// Process group of a process (proc(5): the fifth field of `stat`).
fn group_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(2)?.parse().ok()
}
