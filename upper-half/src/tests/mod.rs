//! Tests of messages and requests against a mock of the lower half.

mod inputs;
mod messages;
mod mock_lower;
mod perturb;
mod threads;
mod vain_tests;
