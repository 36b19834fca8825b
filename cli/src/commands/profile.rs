//! `stasis profile`: the MPI calls of a job that counts them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, Context};
use coordinator::client::Client;
use coordinator::protocol::Details;
use profile::Job;
use serde_json::{json, Value};

use crate::args::Profile;
use crate::report::profile_page;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::json;

/// Runs the command.
pub fn run(options: &Profile) -> exit::Result<()> {
    let directory = options.job.existing_directory()?;
    renew(&directory);
    let job = read(&directory)?.ok_or_else(|| none(&directory));
    let job = job.code(Code::Directory)?;
    if let Some(file) = &options.html {
        let page = profile_page(&directory.display().to_string(), &job);
        fs::write(file, page)
            .with_context(|| format!("cannot write {}", file.display()))
            .code(Code::Directory)?;
    }
    match (options.job.json, &options.html) {
        (true, page) => json::print(to_json(&job, &directory, page.as_deref())),
        (false, Some(file)) => say!("{}", file.display()),
        (false, None) => say!("{}", profile::text::of(&job)),
    }
    Ok(())
}

/// Lets the ranks of a running job write their numbers. Those of a job that does not answer are shown as they are.
fn renew(directory: &Path) {
    let details = Details {
        profile: true,
        ..Details::default()
    };
    if let Ok(client) = Client::connect(directory) {
        // A suspended job does not answer.
        let _ = client.patient(Some(Duration::ZERO)).details(details);
    }
}

fn to_json(job: &Job, directory: &Path, page: Option<&Path>) -> Value {
    let mut object = json!(job);
    let place = json!({ "directory": directory, "page": page });
    if let (Value::Object(object), Value::Object(place)) = (&mut object, place) {
        object.extend(place);
    }
    object
}

/// The profile of the job in a directory, if it has one.
pub fn read(directory: &Path) -> exit::Result<Option<Job>> {
    let ranks = profile::file::read(directory)
        .with_context(|| format!("cannot read the profile in {}", directory.display()))
        .code(Code::Directory)?;
    Ok(Job::of(ranks))
}

/// The reason why there is no profile.
pub fn none(directory: &Path) -> anyhow::Error {
    match profile::file::has_folder(directory) {
        true => anyhow!(
            "the job in {} counts its MPI calls, but no rank has written its numbers. Ranks that a signal kills write \
             none; each checkpoint, `stasis profile` and `stasis status --profile` write them while the job runs",
            directory.display()
        ),
        false => anyhow!(
            "{} has no profile of MPI calls: its job was started without `stasis launch --profile`",
            directory.display()
        ),
    }
}
