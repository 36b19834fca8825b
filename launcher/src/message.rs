//! Messages on standard error. Ranks share it, so each goes out in one write: a line that is put together there,
//! piece by piece, has others' pieces in it.

use std::error::Error;
use std::fmt::Display;
use std::io::Write;

/// Says something, on lines of its own.
pub fn say(text: impl Display) {
    let said = format!("stasis: {text}\n");
    // Nothing can be done, nor said, about a standard error that does not take it.
    let _ = std::io::stderr().write_all(said.as_bytes());
}

/// What went wrong and why, each cause once: many errors name theirs themselves.
pub fn reasons(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let why = cause.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::reasons;
    use std::fmt::{self, Display, Formatter};

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl Display for Layer {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|layer| layer as _)
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let layers = |texts: [&'static str; 3]| {
            let last = Layer(texts[2], None);
            let middle = Layer(texts[1], Some(Box::new(last)));
            reasons(&Layer(texts[0], Some(Box::new(middle))))
        };
        assert_eq!(layers(["a", "b", "c"]), "a: b: c");
        assert_eq!(layers(["a: b, so go", "b", "c"]), "a: b, so go: c");
        assert_eq!(layers(["a: b: c", "b: c", "c"]), "a: b: c");
    }
}
