//! Whom the lab dials: the address that is looked at is the one that is dialled, so that a name cannot lead elsewhere between the two.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// An agent that dials public addresses, and private ones only where that is allowed.
pub(super) fn agent(config: Config, is_private_allowed: bool) -> ureq::Agent {
    let resolver = Looked { is_private_allowed, inner: DefaultResolver::default() };
    ureq::Agent::with_parts(config, DefaultConnector::default(), resolver)
}

#[derive(Debug)]
struct Looked {
    is_private_allowed: bool,
    inner: DefaultResolver,
}

impl Resolver for Looked {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let all = self.inner.resolve(uri, config, timeout)?;
        let mut kept = self.empty();
        for address in all.iter() {
            if self.is_private_allowed || is_public(address.ip()) {
                kept.push(*address);
            }
        }
        if kept.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(kept) }
    }
}

/// Whether it is an address of the open network.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => is_public_v4(four),
        IpAddr::V6(six) => is_public_v6(six),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    // Those that hold an address of four bytes are as public as that one.
    if let Some(four) = address.to_ipv4_mapped() {
        return is_public_v4(four);
    }
    let four = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return is_public_v4(four(high, low)),
        [0x2002, high, low, ..] => return is_public_v4(four(high, low)),
        _ => {}
    }
    // 2000::/3 is what is given out; Teredo and documentation are in it.
    parts[0] & 0xe000 == 0x2000 && !(parts[0] == 0x2001 && (parts[1] == 0 || parts[1] == 0xdb8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_not_dialled() {
        for near in [
            "127.0.0.1",
            "127.8.8.8",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
            "fec0::1",
        ] {
            assert!(!is_public(near.parse().unwrap()), "{near}");
        }
        for far in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(far.parse().unwrap()), "{far}");
        }
    }
}
