//! Image sets on disk: format, atomic commit, verification.
