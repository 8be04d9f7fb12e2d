//! Networks: which addresses belong together, and what each kind may be.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits: `10.0.0.0/8`, `fc00::/7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is one of them. An IPv4 address is never in a network of IPv6, however it is written.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => in_v4(address, base, self.bits),
            (IpAddr::V6(base), IpAddr::V6(address)) => in_v6(address, base, self.bits),
            _ => false,
        }
    }
}

/// The text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotANetwork {
    /// It does not look like one.
    #[error("is not a network; try \"10.1.0.0/16\" or \"fd00:1::/32\"")]
    Shape,
    /// Bits after the prefix are set: most likely a slip.
    #[error("has bits set after its first {0}; write the network's first address")]
    HostBits(u8),
}

impl FromStr for Network {
    type Err = NotANetwork;

    /// Reads `address/bits`, or one address.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let base: IpAddr = address.parse().map_err(|_| NotANetwork::Shape)?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|bits| *bits <= most).ok_or(NotANetwork::Shape)?
            }
            Some(_) => return Err(NotANetwork::Shape),
        };
        let first = match base {
            IpAddr::V4(base) => IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() & mask_v4(bits))),
            IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() & mask_v6(bits))),
        };
        if first == base { Ok(Self { base, bits }) } else { Err(NotANetwork::HostBits(bits)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

fn mask_v4(bits: u8) -> u32 {
    u32::MAX.checked_shl(u32::from(32 - bits)).unwrap_or(0)
}

fn mask_v6(bits: u8) -> u128 {
    u128::MAX.checked_shl(u32::from(128 - bits)).unwrap_or(0)
}

fn in_v4(address: Ipv4Addr, base: Ipv4Addr, bits: u8) -> bool {
    (address.to_bits() ^ base.to_bits()) & mask_v4(bits) == 0
}

fn in_v6(address: Ipv6Addr, base: Ipv6Addr, bits: u8) -> bool {
    (address.to_bits() ^ base.to_bits()) & mask_v6(bits) == 0
}

/// What an address is, as far as it matters who may call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody on the internet.
    Public,
    /// This machine or a network of one's own: what `allow_private_targets` allows.
    Private(&'static str),
    /// Neither on the internet nor private; allowed only if it is in a network that the operator names.
    Special(&'static str),
    /// What no target may be, whatever the operator allows.
    Never(&'static str),
}

const PRIVATE: fn(&'static str) -> Kind = Kind::Private;
const SPECIAL: fn(&'static str) -> Kind = Kind::Special;
const NEVER: fn(&'static str) -> Kind = Kind::Never;

/// A row of the tables below.
type Row<A> = (A, u8, fn(&'static str) -> Kind, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// Of IPv4, the first that fits. What is not in here is public.
const IPV4: &[Row<Ipv4Addr>] = &[
    (v4(0, 0, 0, 0), 8, NEVER, "an unspecified address"),
    (v4(169, 254, 0, 0), 16, NEVER, "a link-local address, where clouds keep their metadata"),
    (v4(100, 100, 100, 200), 32, NEVER, "a cloud's metadata"),
    (v4(168, 63, 129, 16), 32, NEVER, "a cloud's metadata"),
    (v4(192, 0, 0, 192), 32, NEVER, "a cloud's metadata"),
    (v4(224, 0, 0, 0), 4, NEVER, "a multicast address"),
    (v4(255, 255, 255, 255), 32, NEVER, "a broadcast address"),
    (v4(127, 0, 0, 0), 8, PRIVATE, "a loopback address"),
    (v4(10, 0, 0, 0), 8, PRIVATE, "a private address"),
    (v4(172, 16, 0, 0), 12, PRIVATE, "a private address"),
    (v4(192, 168, 0, 0), 16, PRIVATE, "a private address"),
    (v4(100, 64, 0, 0), 10, SPECIAL, "an address shared behind a carrier's NAT"),
    (v4(192, 0, 0, 0), 24, SPECIAL, "an address kept for protocols"),
    (v4(192, 0, 2, 0), 24, SPECIAL, "an address of documentation"),
    (v4(198, 51, 100, 0), 24, SPECIAL, "an address of documentation"),
    (v4(203, 0, 113, 0), 24, SPECIAL, "an address of documentation"),
    (v4(192, 88, 99, 0), 24, SPECIAL, "a relay of 6to4"),
    (v4(198, 18, 0, 0), 15, SPECIAL, "an address of benchmarks"),
    (v4(240, 0, 0, 0), 4, SPECIAL, "a reserved address"),
];

const fn v6(a: u16, b: u16, c: u16, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, 0, 0, 0, 0, last)
}

/// Of IPv6, the first that fits, once addresses that carry one of IPv4 are judged by that. What is not in here is
/// public if it is in `2000::/3`, which is all that is given out.
const IPV6: &[Row<Ipv6Addr>] = &[
    (v6(0, 0, 0, 0), 128, NEVER, "an unspecified address"),
    (v6(0xfe80, 0, 0, 0), 10, NEVER, "a link-local address"),
    (v6(0xff00, 0, 0, 0), 8, NEVER, "a multicast address"),
    (v6(0xfd00, 0x0ec2, 0, 0x0254), 128, NEVER, "a cloud's metadata"),
    (v6(0xfd20, 0x00ce, 0, 0x0254), 128, NEVER, "a cloud's metadata"),
    (v6(0, 0, 0, 1), 128, PRIVATE, "a loopback address"),
    (v6(0xfc00, 0, 0, 0), 7, PRIVATE, "a private address"),
    (v6(0x64, 0xff9b, 1, 0), 48, SPECIAL, "an address of a local translator"),
    (v6(0x2001, 0, 0, 0), 23, SPECIAL, "an address kept for protocols"),
    (v6(0x2001, 0x0db8, 0, 0), 32, SPECIAL, "an address of documentation"),
    (v6(0x3fff, 0, 0, 0), 20, SPECIAL, "an address of documentation"),
    (v6(0x2000, 0, 0, 0), 3, |_| Kind::Public, ""),
];

/// Networks of IPv6 whose addresses carry one of IPv4, and at which of their bits it begins.
const CARRIERS: &[(Ipv6Addr, u8, u8)] = &[
    // ::ffff:a.b.c.d, mapped.
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 96),
    // ::ffff:0:a.b.c.d, translated.
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, 96),
    // 64:ff9b::a.b.c.d, NAT64.
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 96),
    // 2002:a.b.c.d::, 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 16),
];

/// The IPv4 address that an IPv6 address carries, if it does.
pub(super) fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    // ::a.b.c.d, compatible: all of ::/96 but the two addresses that are something else.
    if bits > 1 && bits <= u128::from(u32::MAX) {
        return Some(at(bits, 96));
    }
    let carrier = CARRIERS.iter().find(|(base, length, _)| in_v6(address, *base, *length));
    carrier.map(|&(_, _, start)| at(bits, start))
}

fn at(bits: u128, start: u8) -> Ipv4Addr {
    let shifted = bits >> (96 - u32::from(start));
    Ipv4Addr::from_bits(u32::try_from(shifted & u128::from(u32::MAX)).expect("masked to 32 bits"))
}

/// What an address is.
pub(super) fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => {
            let row = IPV4.iter().find(|(base, bits, ..)| in_v4(address, *base, *bits));
            row.map_or(Kind::Public, |(_, _, kind, what)| kind(what))
        }
        IpAddr::V6(address) => {
            if let Some(carried) = carried(address) {
                kind(IpAddr::V4(carried))
            } else {
                let row = IPV6.iter().find(|(base, bits, ..)| in_v6(address, *base, *bits));
                row.map_or(Kind::Special("an address that nobody was given"), |(_, _, kind, what)| kind(what))
            }
        }
    }
}
