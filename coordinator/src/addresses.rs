//! The addresses under which this machine can be reached by the others of the job.
//!
//! # Safety
//! getifaddrs gives a list that stays valid until freeifaddrs; it is only read in between, and each
//! socket address is read as the type that its family says it is.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of all interfaces that are up, IPv4 first, without loopback and link-local ones.
pub fn of_this_machine() -> Vec<IpAddr> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is valid for writes.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return vec![];
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: an element of the list, or null.
    while let Some(interface) = unsafe { next.as_ref() } {
        next = interface.ifa_next;
        let up = interface.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: null, or the address of this element.
        let ip = unsafe { ip_of(interface.ifa_addr) };
        found.extend(ip.filter(|ip| up && is_reachable(ip)));
    }
    // SAFETY: the list that getifaddrs made, not used any more.
    unsafe { libc::freeifaddrs(first) };
    found.sort();
    found.dedup();
    found
}

/// # Safety
/// `address` is null or points to a socket address of the family that it names.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller says.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let address = &*address.cast::<libc::sockaddr_in>();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = &*address.cast::<libc::sockaddr_in6>();
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

fn is_reachable(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// This machine's name.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}
