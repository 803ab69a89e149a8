//! The keys `allow_from` and `proxy_protocol_from`: addresses and subnets of counterparties that
//! may connect, and of proxies.
//!
//! Invariant: an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) counts as IPv4, in the settings and
//! on the network.

use std::net::IpAddr;

use transfix_session::Role;

use crate::SessionSettings;
use crate::entries::all_of;

/// Number of bits before the IPv4 address in an IPv4-mapped IPv6 address.
const MAPPED_BITS: u32 = 96;

/// A subnet: all addresses with the same leading bits. If the prefix has all bits, the subnet is a
/// single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subnet {
    address: IpAddr,
    bits: u32,
}

impl Subnet {
    /// Parses a subnet such as `10.1.0.0/16` or `2001:db8::/32`, or a single address.
    ///
    /// # Errors
    /// Names the fault and the correct form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let written: IpAddr = address.parse().map_err(|_| {
            format!("`{text}` is neither an IP address nor a subnet such as 10.1.0.0/16")
        })?;
        let most = width(written);
        // The number of bits must not contain a sign or a space.
        let is_number = |bits: &&str| bits.bytes().all(|b| b.is_ascii_digit());
        let bits = match bits {
            None => most,
            Some(bits) => {
                let bits = Some(bits).filter(is_number).and_then(|bits| bits.parse().ok());
                bits.filter(|bits| *bits <= most)
                    .ok_or_else(|| format!("`{text}`: the number after `/` must be 0 to {most}"))?
            }
        };
        let canonical = written.to_canonical();
        let bits = match canonical == written {
            true => bits,
            false => bits.checked_sub(MAPPED_BITS).ok_or_else(|| {
                format!("`{text}` covers both IPv4 and IPv6 addresses; write a subnet for each")
            })?,
        };
        let subnet = Self { address: first(canonical, bits), bits };
        if subnet.address != canonical {
            let Self { address, bits } = subnet;
            return Err(format!(
                "`{text}` has address bits set after the first {bits}; write {address}/{bits} for \
                 the subnet, or {canonical} for this single address"
            ));
        }
        Ok(subnet)
    }

    /// Returns true if one of the subnets contains the address, or if the list is empty.
    #[must_use]
    pub fn allow(allowed: &[Self], address: Option<IpAddr>) -> bool {
        let has = |address: IpAddr| allowed.iter().any(|subnet| subnet.has(address));
        allowed.is_empty() || address.is_some_and(has)
    }

    /// Returns true if the subnet contains this address. An IPv4-mapped IPv6 address counts as
    /// IPv4.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.address.is_ipv4() == address.is_ipv4() && first(address, self.bits) == self.address
    }
}

/// Returns the number of bits of such an address.
const fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Returns the first address of the subnet that contains this address.
fn first(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        // A prefix of 0 bits needs a shift by all bits, which overflows.
        IpAddr::V4(v4) => {
            IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into())
        }
        IpAddr::V6(v6) => {
            IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into())
        }
    }
}

impl SessionSettings {
    /// Returns the subnets of `allow_from`, which have been checked.
    #[must_use]
    pub fn allowed(&self) -> Vec<Subnet> {
        parsed(&self.allow_from)
    }

    /// Returns the subnets of `proxy_protocol_from`, which have been checked.
    #[must_use]
    pub fn proxies(&self) -> Vec<Subnet> {
        parsed(&self.proxy_protocol_from)
    }
}

fn parsed(texts: &[String]) -> Vec<Subnet> {
    let parsed = texts.iter().map(|text| Subnet::parse(text));
    // Panics instead of ignoring a wrong entry, because an empty list would allow all addresses.
    parsed.map(|subnet| subnet.expect("the settings were checked")).collect()
}

/// Checks `allow_from`.
pub(crate) fn check(session: &SessionSettings) -> Result<(), String> {
    check_key(session, "allow_from", &session.allow_from)
}

/// Checks `proxy_protocol_from`.
pub(crate) fn check_proxies(session: &SessionSettings) -> Result<(), String> {
    check_key(session, "proxy_protocol_from", &session.proxy_protocol_from)
}

fn check_key(session: &SessionSettings, key: &str, texts: &[String]) -> Result<(), String> {
    if session.role == Role::Initiator && !texts.is_empty() {
        let what = "is for acceptors only, because an initiator accepts no connections";
        return Err(format!("{key} {what}"));
    }
    let wrong = texts.iter().filter_map(|text| Subnet::parse(text).err());
    all_of(wrong).map_err(|wrong| format!("{key}: {wrong}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_has_the_addresses_with_its_first_bits() {
        for (subnet, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7"),
            ("::ffff:10.1.0.0/112", "10.1.2.3", "::10.1.2.3"),
            ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("::/0", "2001:db8::1", "::ffff:192.0.2.1"),
            ("::1", "::1", "::2"),
            ("2001:db8::/32", "2001:db8:ffff::", "2001:db9::"),
            ("2001:db8::8/125", "2001:db8::f", "2001:db8::10"),
        ] {
            let allowed = [Subnet::parse(subnet).unwrap()];
            assert!(
                Subnet::allow(&allowed, Some(inside.parse().unwrap())),
                "{subnet} has {inside}"
            );
            let outside = outside.parse().unwrap();
            assert!(!Subnet::allow(&allowed, Some(outside)), "{subnet} has not {outside}");
            assert!(!Subnet::allow(&allowed, None), "{subnet} has somebody without an address");
        }
        assert!(Subnet::allow(&[], None) && Subnet::allow(&[], Some([192, 0, 2, 1].into())));
    }

    #[test]
    fn a_text_that_is_none_is_told_with_what_would_be_right() {
        let neither = "neither an IP address nor a subnet such as 10.1.0.0/16";
        for (text, expected) in [
            ("", neither),
            ("fix.bank.example", neither),
            ("10.1/16", neither),
            ("10.1.0.0:9880", neither),
            ("fe80::1%eth0", neither),
            ("10.1.0.0/33", "the number after `/` must be 0 to 32"),
            ("10.1.0.0/", "the number after `/` must be 0 to 32"),
            ("10.1.0.0/+8", "the number after `/` must be 0 to 32"),
            ("10.1.0.0/255.255.0.0", "the number after `/` must be 0 to 32"),
            ("::1/129", "the number after `/` must be 0 to 128"),
            (
                "10.1.2.3/16",
                "write 10.1.0.0/16 for the subnet, or 10.1.2.3 for this single \
                             address",
            ),
            ("2001:db8::1/32", "write 2001:db8::/32 for the subnet"),
            ("::ffff:0.0.0.0/95", "write a subnet for each"),
        ] {
            let error = Subnet::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
