//! Messages on standard error. Ranks share it, so each message is one write. A line that is written piece
//! by piece would mix with pieces of other ranks.

use std::error::Error;
use std::fmt::Display;
use std::io::Write;

/// Prints a message, on lines of its own.
pub fn say(text: impl Display) {
    let said = format!("stasis: {text}\n");
    // A failure of standard error can be neither handled nor reported.
    let _ = std::io::stderr().write_all(said.as_bytes());
}

/// An error with its causes, each once: many errors include the text of their cause.
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
    fn each_cause_is_named_once() {
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
