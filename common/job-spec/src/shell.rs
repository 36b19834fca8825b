//! Commands in messages, as a user can give them to a shell.

use std::ffi::OsStr;

/// A word as a POSIX shell reads it: in quotes if it has a character that means something to a shell.
///
/// # Examples
/// ```
/// use stasis_job_spec::shell::word;
///
/// assert_eq!(word("/scratch/run_7/ck"), "/scratch/run_7/ck");
/// assert_eq!(word("/scratch/my run/it's"), r"'/scratch/my run/it'\''s'");
/// assert_eq!(word(""), "''");
/// ```
pub fn word(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command line as a shell reads it.
///
/// # Examples
/// ```
/// use stasis_job_spec::shell::line;
///
/// assert_eq!(line(["./app", "a b", "$x"]), "./app 'a b' '$x'");
/// ```
pub fn line(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    words.join(" ")
}
