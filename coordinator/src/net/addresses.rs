//! The addresses at which other machines of the job can reach this one, and listeners there.

use nix::ifaddrs::{getifaddrs, InterfaceAddress};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::sockopt::Ipv6V6Only;
use nix::sys::socket::{
    bind, listen, setsockopt, socket, AddressFamily, Backlog, SockFlag, SockType, SockaddrIn6,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener};
use std::os::fd::AsRawFd;

/// Addresses of all interfaces that are up, IPv4 first, without loopback and link-local ones.
pub fn of_this_machine() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten();
    let up = interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    let mut found: Vec<IpAddr> = up.filter_map(|interface| ip_of(&interface)).collect();
    found.retain(is_reachable);
    found.sort();
    found.dedup();
    found
}

fn ip_of(interface: &InterfaceAddress) -> Option<IpAddr> {
    let address = interface.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| Some(address.as_sockaddr_in6()?.ip().into()))
}

fn is_reachable(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// Listens at a free TCP port of all addresses of this machine. Where it has addresses of IPv6, one socket serves both
/// families.
///
/// # Errors
/// No socket can be made.
pub fn listen_to_all() -> io::Result<TcpListener> {
    listen_at_all(&of_this_machine())
}

fn listen_at_all(own: &[IpAddr]) -> io::Result<TcpListener> {
    if own.iter().any(IpAddr::is_ipv6) {
        let both = both_families();
        if both.is_ok() || !own.iter().any(IpAddr::is_ipv4) {
            return both;
        }
    }
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// Listens at a free TCP port of all addresses. A peer with one of IPv4 has it in the form of IPv6.
fn both_families() -> io::Result<TcpListener> {
    let family = AddressFamily::Inet6;
    let made = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // A machine may have another default (net.ipv6.bindv6only).
    setsockopt(&made, Ipv6V6Only, &false)?;
    let all = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
    bind(made.as_raw_fd(), &SockaddrIn6::from(all))?;
    listen(&made, Backlog::MAXCONN)?;
    Ok(made.into())
}

/// Listens at a free TCP port that only this machine can reach.
///
/// # Errors
/// This machine has no loopback address, or no socket can be made.
pub fn listen_here() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .or_else(|_| TcpListener::bind((Ipv6Addr::LOCALHOST, 0)))
}

/// The addresses at which other machines reach a listener of [`listen_to_all`].
///
/// # Errors
/// The address of the socket cannot be read.
pub fn of_listener(listener: &TcpListener) -> io::Result<Vec<IpAddr>> {
    let family = listener.local_addr()?;
    let mut found = of_this_machine();
    found.retain(|ip| ip.is_ipv4() || family.is_ipv6());
    Ok(found)
}

/// Name of this machine.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skip::skip;
    use std::net::TcpStream;

    fn answers(listener: &TcpListener, to: impl Into<IpAddr>) -> bool {
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((to.into(), port)).is_ok()
    }

    #[test]
    fn one_listener_serves_both_families() {
        let v4: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        let v6: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
        let plain = listen_at_all(&[v4]).unwrap();
        assert!(plain.local_addr().unwrap().is_ipv4());
        assert!(answers(&plain, Ipv4Addr::LOCALHOST));
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            skip!("this machine has no IPv6");
        }
        for own in [&[v6][..], &[v4, v6]] {
            let both = listen_at_all(own).unwrap();
            assert!(answers(&both, Ipv4Addr::LOCALHOST));
            assert!(answers(&both, Ipv6Addr::LOCALHOST));
        }
    }
}
