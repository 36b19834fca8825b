//! MPI_Start and MPI_Startall, for persistent requests of all kinds.
//!
//! # Safety
//! A start crosses with the arguments that the application gave for the request, as MPI allows while it is inactive.
#![allow(unsafe_code)]

use crate::object::request::Kind;
use crate::object::Request;
use crate::profile;
use crate::pt2pt::{partitioned, persistent_message};
use crate::request::{error_origin, persistent_collective};
use crate::tools;
use contract::abi::{ERR_COUNT, ERR_REQUEST, SUCCESS};
use contract::TOOL_PROFILE;

/// MPI_Start
pub fn start(request: &mut &'static Request) -> i32 {
    let request = *request;
    error_origin::outcome(request, start_one(request))
}

/// MPI_Startall
pub fn startall(count: i32, requests: &[&'static Request]) -> i32 {
    if count < 0 {
        return ERR_COUNT;
    }
    for request in requests {
        let error = start_one(request);
        if error != SUCCESS {
            return error_origin::outcome(request, error);
        }
    }
    SUCCESS
}

fn start_one(request: &'static Request) -> i32 {
    if !persistent_message::may_start(request) {
        return ERR_REQUEST;
    }
    match request.body.kind.get() {
        Kind::PersistentCollective => persistent_collective::start(request),
        Kind::Partitioned => partitioned::start(request),
        _ => {
            if tools::is_set(TOOL_PROFILE) {
                profile::starts(request);
            }
            persistent_message::start(request)
        }
    }
}
