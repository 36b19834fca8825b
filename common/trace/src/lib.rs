//! Diagnostics: a log (`STASIS_LOG`), and the last events of the flight recorder (`contract::recorder`) as text.
//!
//! # Examples
//! ```
//! use contract::recorder::{Event, Recorder};
//! use stasis_trace::recorder::lines;
//! use std::time::SystemTime;
//!
//! // SAFETY: all fields are atomics, for which zeros are valid.
//! let recorder: Box<Recorder> = unsafe { Box::new_zeroed().assume_init() };
//! recorder.add(100, 7, Event::Pulled, [3, 64]);
//! recorder.add(200, 0, Event::Phase, [1, 0]);
//! let text = lines(&recorder, 10, SystemTime::now());
//! assert_eq!(text.len(), 2);
//! assert!(text[0].contains("thread 7"));
//! assert!(text[1].contains("agent"));
//! ```

pub mod log;
pub mod recorder;
