//! Lists of features, as users write them.

use std::fmt;

use super::{level, names, BASELINE};

/// A list from which no features can be read: a sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct BadList(String);

impl fmt::Display for BadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadList {}

/// Features that all machines of a list have, sorted. Each line is one machine: names of features, of levels of the
/// psABI, or the line `flags` of /proc/cpuinfo, whose other lines have no effect. `#` begins a comment.
///
/// # Errors
/// If a name is unknown, or the list has no machine.
///
/// # Examples
/// ```
/// let common = stasis_processor::features_of("x86-64-v3\nsse4_2 avx # an older machine\n")?;
/// assert!(common.contains(&"sse4_2") && !common.contains(&"avx2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn features_of(list: &str) -> Result<Vec<&'static str>, BadList> {
    let mut common: Option<Vec<&'static str>> = None;
    for line in list.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let machine = match line.split_once(':') {
            None if line.trim().is_empty() => continue,
            None => named(line)?,
            Some((key, flags)) if key.trim().eq_ignore_ascii_case("flags") => {
                let has = |name: &&str| flags.split_whitespace().any(|flag| flag == *name);
                names().filter(has).collect()
            }
            Some(_) => continue,
        };
        let in_machine = |name: &&str| machine.contains(name) || BASELINE.contains(name);
        let before = common.unwrap_or_else(|| names().collect());
        common = Some(before.into_iter().filter(in_machine).collect());
    }
    common.ok_or_else(|| {
        BadList("it names no machine: a line of it has names of features".to_owned())
    })
}

/// Features that a line of names means.
fn named(line: &str) -> Result<Vec<&'static str>, BadList> {
    let mut all = Vec::new();
    for word in line
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
    {
        match (level(word), names().find(|name| *name == word)) {
            (Some(of_level), _) => all.extend(of_level),
            (None, Some(feature)) => all.push(feature),
            (None, None) => {
                return Err(BadList(format!(
                    "{word} is neither a level (x86-64, x86-64-v2, x86-64-v3, x86-64-v4) nor a feature that Stasis \
                     knows; names are those of /proc/cpuinfo"
                )))
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_a_list_are_intersected() {
        let all = "x86-64-v3 aes\n# the old ones\nx86-64-v2, aes, vaes\n";
        let features = features_of(all).unwrap();
        assert!(features.contains(&"aes") && features.contains(&"sse4_2"));
        assert!(!features.contains(&"vaes") && !features.contains(&"avx2"));
    }

    #[test]
    fn the_files_of_the_kernel_can_be_given() {
        let one = "vendor_id\t: GenuineIntel\nflags\t\t: fpu sse sse2 avx2 avx unknown\n\n";
        let other = "Flags:     sse sse2 avx\n";
        assert_eq!(
            features_of(one).unwrap(),
            ["avx", "avx2", "mmx", "sse", "sse2"]
        );
        assert_eq!(
            features_of(&format!("{one}{other}")).unwrap(),
            ["avx", "mmx", "sse", "sse2"]
        );
    }

    #[test]
    fn other_words_are_refused() {
        assert!(features_of("x86-64-v3 avx3")
            .unwrap_err()
            .to_string()
            .starts_with("avx3 is neither"));
        assert!(features_of("\n# nothing\n").is_err());
    }
}
